"""Promote, yank, unyank and prune, killed (SIGKILL) at random moments.

    python -m tests.nightly.kill_care [RUNS] [SEED]

After each the next publisher's repair runs; then an audit must find nothing, and the indexes must be those of
before or those of an undisturbed run. Ends with status 1 at the first run where it is otherwise.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from channel_tools.channel.care.audit import audit
from channel_tools.channel.care.upkeep import read_state
from channel_tools.channel.care.yank import yank
from channel_tools.channel.init import init_channel
from channel_tools.channel.layout import LEASE_KEY
from channel_tools.channel.publishing.promote import Promotion, promote
from channel_tools.channel.publishing.publish import Publisher
from channel_tools.channel.release import read_releases
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.store import NO_CACHE
from channel_tools.channel.transaction.repair import repair
from channel_tools.model.matrix import read_matrix
from tests.integration.tiny_packages import release, tiny_package

ROOT = Path(__file__).resolve().parents[2]
MATRIX = read_matrix(ROOT / "variants" / "conda_build_config.yaml")
WHO = "nightly@host"

ACTION = """
import os, sys, time
from pathlib import Path
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.publishing.promote import Promotion, promote
from channel_tools.channel.care.prune import prune
from channel_tools.channel.care.yank import unyank, yank
from tests.nightly.kill_care import MATRIX, newest
action, folder = sys.argv[1], Path(sys.argv[2])
target, staging = FolderStore(folder / "target"), FolderStore(folder / "staging")
print("ready", flush=True)
if action == "promote":
    promote(target, Promotion(staging, newest(staging), "child@host", MATRIX))
elif action == "yank":
    yank(target, "hip-demo ==0.1.0", "why", "child@host")
elif action == "unyank":
    unyank(target, "plain ==1", "child@host")
else:
    prune(target, "child@host", days=0)
print("done", flush=True)
os._exit(0)
"""


def newest(store: FolderStore) -> str:
    return max(read_releases(store), key=lambda one: (one.created, -len(one.files))).id


def prepare(folder: Path) -> None:
    """A staging channel with two releases; a target with the first, and a yanked build that may be pruned."""
    staging, target = FolderStore(folder / "staging"), FolderStore(folder / "target")
    for store in (staging, target):
        init_channel(store, {"url": f"https://conda.example.com/{store.path.name}"}, who=WHO)
    for version, selects in (("0.1.0", True), ("0.2.0", False)):
        packages = release(folder / "made", version=version, selection=selects)
        packages.append(tiny_package(folder / "made", "plain", version[2]))
        made = Publisher(staging, MATRIX, WHO).publish(packages)
        if selects:
            promote(target, Promotion(staging, made.release.id, WHO, MATRIX))
    yank(target, "plain ==1", "to come back", WHO)
    manifest = json.loads(next((target.path / "releases").iterdir()).read_text())
    manifest["files"] = [file for file in manifest["files"] if file["name"] != "plain"]
    next((target.path / "releases").iterdir()).write_text(json.dumps(manifest))


def offered(store: FolderStore) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """What the indexes offer, and what they list as yanked."""
    return {key: (frozenset(i.records), i.removed) for key, i in read_state(store).indexes.items()}


def expire(store: FolderStore) -> None:
    """End the lease of a publisher that died, in the place of waiting for a minute."""
    found = store.read_with_etag(LEASE_KEY)
    if found is not None and (entry := json.loads(found[0])).get("id") is not None:
        content = json.dumps({**entry, "until": 0}).encode()
        store.replace(LEASE_KEY, content, expect=found[1], cache=NO_CACHE)


def run(action: str, folder: Path, kill_after: float | None) -> float:
    """Run one action in a child; its seconds from the moment that it was ready."""
    child = subprocess.Popen(
        [sys.executable, "-c", ACTION, action, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    start = time.monotonic()
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert kill_after is not None or child.returncode == 0, action
    return time.monotonic() - start


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    chance = random.Random(seed)
    outcomes: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="rocm-channel-kill-") as name:
        base = Path(name, "base")
        prepare(base)
        before = offered(FolderStore(base / "target"))
        after, seconds = {}, {}
        for action in ("promote", "yank", "unyank", "prune"):
            shutil.copytree(base, Path(name, action))
            seconds[action] = run(action, Path(name, action), None)
            after[action] = offered(FolderStore(Path(name, action, "target")))
            assert after[action] != before, action
        for number in range(runs):
            action = chance.choice(list(after))
            folder = Path(name, "run")
            shutil.copytree(base, folder)
            run(action, folder, seconds[action] * chance.uniform(0.2, 1.05))
            target = FolderStore(folder / "target")
            killed = offered(target)
            expire(target)
            done = repair(target, who=WHO)
            now = offered(target)
            found = audit(target).findings
            known = {"old": before, "new": after[action]}
            state = next((word for word, content in known.items() if now == content), "neither old nor new")
            word = f"{action}: {state}" + (", repaired" if done else "")
            outcomes[word] = outcomes.get(word, 0) + 1
            lost = killed == after[action] and now != killed
            if found or state.startswith("neither") or lost:
                print(f"seed {seed}, run {number}: {word}", *done, *found, sep="\n")
                sys.exit(1)
            shutil.rmtree(folder)
    print(f"seed {seed}: {runs} runs: {dict(sorted(outcomes.items()))}")


if __name__ == "__main__":
    main()

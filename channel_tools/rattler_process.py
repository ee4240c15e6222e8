"""Calls into py-rattler, each in a process of its own.

py-rattler may crash the interpreter while it exits, after the result is there, and its calls do not react
to signals. A child process that ends itself as soon as it has written its answer has neither fault.

Protocol: ``python -m channel_tools.rattler_process TASK`` reads a JSON object on standard input and writes
one on standard output: ``{"ok": result}`` or ``{"error": text, "kind": class}``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


class RattlerCallError(Exception):
    """What py-rattler said when it could not do as asked; ``kind`` is the class of its error."""

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


def call(task: str, payload: Json) -> Any:
    """Run one of :data:`TASKS` in a child process.

    :raises RattlerCallError: with py-rattler's own message
    """
    command = [sys.executable, "-m", "channel_tools.rattler_process", task]
    done = subprocess.run(command, input=json.dumps(payload), capture_output=True, text=True, check=False)
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        text = done.stderr.strip() or f"the process ended with status {done.returncode}"
        raise RattlerCallError(text) from None
    if "error" in answer:
        raise RattlerCallError(answer["error"], answer.get("kind", ""))
    return answer["ok"]


def _index(payload: Json) -> Any:
    """Index channel folders: ``{"channels": [path, ...]}``."""
    import asyncio

    from rattler.index import index_fs

    async def run() -> None:
        for channel in payload["channels"]:
            await index_fs(channel, force=payload.get("force", False))

    asyncio.run(run())
    return len(payload["channels"])


def _solve(payload: Json) -> Any:
    """Solve, and install when ``prefix`` is given.

    ``{"channels": [...], "specs": [...], "virtual": [[name, version, build], ...], "prefix": path or null,
    "priority": "strict" or "flexible", "whole": bool, "unlocked": [name, ...]}``; the answer is a list of
    records with ``name``, ``version``, ``build``, ``channel``, ``url``, ``sha256``, ``size`` and
    ``attestations_sha256``, and whole ones with the ``record`` that the task ``place`` takes.
    """
    import asyncio
    from pathlib import Path

    from rattler import (
        BuildString,
        Channel,
        ChannelPriority,
        GenericVirtualPackage,
        PackageName,
        PrefixRecord,
        Version,
        install,
        solve,
    )
    from rattler.networking import Client

    from channel_tools.client.rattler_tasks import PRIORITIES, described, spec, steadily

    # Without this one, no credentials are sent: not of RATTLER_AUTH_FILE, nor of a keyring or .netrc.
    client = Client.default_client()
    prefix = payload.get("prefix")
    records = sorted(Path(prefix, "conda-meta").glob("*.json")) if prefix else []
    installed = [PrefixRecord.from_path(path) for path in records]
    unlocked = set(payload.get("unlocked", ()))
    installed = [record for record in installed if record.name.normalized not in unlocked]

    async def run() -> list[Json]:
        solution: list[Any] = await steadily(
            client,
            lambda gateway: solve(
                sources=[Channel(channel) for channel in payload["channels"]],
                specs=[spec(text) for text in payload["specs"] + payload.get("keep", [])],
                platforms=["linux-64", "noarch"],
                gateway=gateway,
                locked_packages=installed or None,
                channel_priority=ChannelPriority[PRIORITIES[payload.get("priority", "strict")]],
                virtual_packages=[
                    GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))
                    for name, version, build in payload["virtual"]
                ],
            ),
        )
        if prefix and not payload.get("dry_run"):
            await install(
                records=solution,
                target_prefix=prefix,
                requested_specs=None,
                show_progress=False,
                client=client,
            )
        return [described(record, whole=payload.get("whole", False)) for record in solution]

    return asyncio.run(run())


def _solves(payload: Json) -> Any:
    """Solve many times, one after the other, with indexes that are read once and afresh.

    ``{"solves": [{"channels": [...], "specs": [...], "virtual": [[name, version, build], ...]}, ...]}``; the
    answer has for each of them ``{"records": [[channel URL, file name, sha256], ...]}``, or
    ``{"refused": text}`` where no environment is possible. After ``{"unreachable": text}`` there are no more.
    A solve may have a ``priority``, and with ``described`` its records are as those of ``solve``.
    """
    import asyncio
    import tempfile
    from pathlib import Path

    from rattler import (
        BuildString,
        Channel,
        ChannelPriority,
        Gateway,
        GenericVirtualPackage,
        PackageName,
        Version,
        solve,
    )
    from rattler.exceptions import GatewayError, SolverError
    from rattler.networking import Client

    from channel_tools.client.rattler_tasks import PRIORITIES, described, spec

    async def one(gateway: Any, wanted: Json) -> Json:
        virtual = [
            GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))
            for name, version, build in wanted["virtual"]
        ]
        try:
            found = await solve(
                sources=[Channel(channel) for channel in wanted["channels"]],
                specs=[spec(text) for text in wanted["specs"]],
                gateway=gateway,
                platforms=["linux-64", "noarch"],
                virtual_packages=virtual,
                channel_priority=ChannelPriority[PRIORITIES[wanted.get("priority", "strict")]],
            )
        except SolverError as error:
            return {"refused": str(error)}
        except GatewayError as error:
            return {"unreachable": str(error)}
        if wanted.get("described"):
            return {"records": [described(record) for record in found]}
        return {
            "records": [[str(r.channel), r.file_name, r.sha256.hex() if r.sha256 else None] for r in found]
        }

    async def run() -> list[Json]:
        with tempfile.TemporaryDirectory(prefix="rocm-channel-solves-") as cache:
            gateway = Gateway(cache_dir=Path(cache), client=Client.default_client())
            answers: list[Json] = []
            for wanted in payload["solves"]:
                answers.append(await one(gateway, wanted))
                if "unreachable" in answers[-1]:
                    break
            return answers

    return asyncio.run(run())


def _virtual(payload: Json) -> Any:
    """The virtual packages that py-rattler finds on this host: ``[[name, version, build], ...]``."""
    from rattler.virtual_package import VirtualPackage, VirtualPackageOverrides

    found = VirtualPackage.detect(VirtualPackageOverrides.from_env())
    generic = [package.into_generic() for package in found]
    return [[g.name.normalized, str(g.version), str(g.build_string)] for g in generic]


def _look(payload: Json) -> Any:
    """Read a channel as its consumers do: see :mod:`channel_tools.client.rattler_tasks`."""
    from channel_tools.client.rattler_tasks import look

    return look(payload)


def _place(payload: Json) -> Any:
    """Install exactly the given records: see :mod:`channel_tools.client.rattler_tasks`."""
    from channel_tools.client.rattler_tasks import place

    return place(payload)


def _of_urls(payload: Json) -> Any:
    """Records of package files: see :mod:`channel_tools.client.rattler_tasks`."""
    from channel_tools.client.rattler_tasks import of_urls

    return of_urls(payload)


def _unmet(payload: Json) -> Any:
    """Installed records that do not fit together: see :mod:`channel_tools.client.rattler_tasks`."""
    from channel_tools.client.rattler_tasks import unmet

    return unmet(payload)


def _bases(payload: Json) -> Any:
    """URLs of channels: see :mod:`channel_tools.client.pinning.tasks`."""
    from channel_tools.client.pinning.tasks import bases

    return bases(payload)


def _of_names(payload: Json) -> Any:
    """All records of some names: see :mod:`channel_tools.client.pinning.tasks`."""
    from channel_tools.client.pinning.tasks import of_names

    return of_names(payload)


def _pin(payload: Json) -> Any:
    """Solve with locked records: see :mod:`channel_tools.client.pinning.tasks`."""
    from channel_tools.client.pinning.tasks import pin

    return pin(payload)


def _write_lock(payload: Json) -> Any:
    """Write a rattler lock file: see :mod:`channel_tools.client.pinning.tasks`."""
    from channel_tools.client.pinning.tasks import write_lock

    return write_lock(payload)


def _read_lock(payload: Json) -> Any:
    """Read a rattler lock file: see :mod:`channel_tools.client.pinning.tasks`."""
    from channel_tools.client.pinning.tasks import read_lock

    return read_lock(payload)


def _fetch(payload: Json) -> Any:
    """Download package files: see :mod:`channel_tools.client.mirroring.fetch_tasks`."""
    from channel_tools.client.mirroring.fetch_tasks import fetch

    return fetch(payload)


def _attest(payload: Json) -> Any:
    """Check attestations: see :mod:`channel_tools.channel.attestations.process`."""
    from channel_tools.channel.attestations.process import verify_all

    return verify_all(payload)


def _assemble(payload: Json) -> Any:
    """Build bridge packages into one channel folder, or take those that the folder ``before`` has.

    ``{"output": path, "bridges": [...], "before": path}``
    """
    import shutil
    import tempfile
    from pathlib import Path

    from rattler_build import Stage0Recipe

    from channel_tools.build.host_tools import bridge_build, bridge_recipe

    output = Path(payload["output"])
    with tempfile.TemporaryDirectory(prefix="rocm-channel-bridges-") as scratch:
        for bridge in payload["bridges"]:
            name = f"{bridge['name']}-{bridge['version']}-{bridge_build(bridge)}.conda"
            before = Path(payload["before"], "linux-64", name)
            if before.is_file():
                shutil.copyfile(before, output / "linux-64" / name)
                continue
            folder = Path(scratch, bridge["name"])
            for name, text in bridge["files"].items():
                file = folder / "files" / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
                file.chmod(0o755)
            folder.mkdir(exist_ok=True)
            Stage0Recipe.from_dict(bridge_recipe(bridge), recipe_dir=folder).run_build(
                output_dir=Path(scratch, "out"), channels=[], no_include_recipe=True, package_format="conda:3"
            )
        for package in Path(scratch, "out", "linux-64").glob("*.conda"):
            (output / "linux-64" / package.name).write_bytes(package.read_bytes())
    return _index({"channels": [str(output)]})


TASKS: dict[str, Callable[[Json], Any]] = {
    "assemble": _assemble,
    "attest": _attest,
    "bases": _bases,
    "fetch": _fetch,
    "index": _index,
    "look": _look,
    "of_names": _of_names,
    "of_urls": _of_urls,
    "pin": _pin,
    "place": _place,
    "read_lock": _read_lock,
    "solve": _solve,
    "solves": _solves,
    "unmet": _unmet,
    "virtual": _virtual,
    "write_lock": _write_lock,
}


def main() -> None:
    task = TASKS[sys.argv[1]]
    try:
        answer = {"ok": task(json.load(sys.stdin))}
    except BaseException as error:
        answer = {"error": str(error) or type(error).__name__, "kind": type(error).__name__}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

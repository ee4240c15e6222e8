"""One publisher at a time, in a folder and in a bucket."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from channel_tools.channel.layout import LEASE_KEY
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.lease import FREE, MARGIN, held, holder
from channel_tools.channel.stores.store import NO_CACHE, Store
from channel_tools.model.errors import ConflictError, StorageError
from tests.integration.s3 import S3Server, s3_server  # noqa: F401

HOLD = """
import sys, time
from channel_tools.channel.stores.lease import held
from channel_tools.channel.stores.opening import open_store
from channel_tools.model.errors import ChannelToolsError
def say(text):
    print(text, flush=True)
try:
    with held(open_store(sys.argv[1]), sys.argv[2], ttl=float(sys.argv[3]), say=say) as lease:
        say("has it")
        for line in sys.stdin:
            if line == "end\\n":
                break
            lease.check()
            say("still has it")
except ChannelToolsError as error:
    say(f"{error.exit_code} {error}")
except KeyboardInterrupt:
    say("interrupted")
"""


def quiet(_text: str) -> None:
    """For tests that do not look at messages."""


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return FolderStore(tmp_path / "channel")
    server: S3Server = request.getfixturevalue("s3_server")
    return server.store()


@contextmanager
def process(store: Store, who: str, ttl: float) -> Iterator[subprocess.Popen[str]]:
    """Another publisher, which tells on standard output how it gets on."""
    running = subprocess.Popen(
        [sys.executable, "-c", HOLD, store.address, who, str(ttl)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().rstrip("\n")


def ask(running: subprocess.Popen[str], text: str = "check") -> str:
    assert running.stdin is not None
    running.stdin.write(f"{text}\n")
    running.stdin.flush()
    return line(running)


def test_held_and_given_back(store: Store) -> None:
    assert holder(store) is None
    with held(store, "anna", ttl=30, say=quiet) as lease:
        lease.check()
        entry = holder(store)
        assert entry is not None and entry["who"] == "anna"
        assert 25 < entry["until"] - store.now() < 31
        assert json.loads(store.read(LEASE_KEY) or b"")["version"] == 1
    assert holder(store) is None
    with held(store, "bert", ttl=30, wait=0, say=quiet) as lease:
        lease.check()


def test_the_waiting_one_says_who_has_it(store: Store) -> None:
    said: list[str] = []
    with process(store, "anna on host7", 20) as anna:
        assert line(anna) == "has it"
        threading.Timer(1.0, lambda: anna.stdin and anna.stdin.close()).start()
        with held(store, "bert", ttl=2, say=said.append) as lease:
            lease.check()
    assert len(said) == 1, "once, not at each try"
    assert "waiting: anna on host7 is changing the channel" in said[0] and " UTC " in said[0]
    assert store.address in said[0]


def test_waiting_ends(store: Store) -> None:
    with held(store, "anna", ttl=20, say=quiet) as first:
        with pytest.raises(ConflictError) as caught, held(store, "bert", ttl=20, wait=0.3, say=quiet):
            pass
        first.check()
    text = str(caught.value)
    assert "found: anna, since" in text and "until" in text and store.address in text
    assert caught.value.exit_code == 42


def test_it_is_renewed(store: Store) -> None:
    with (
        held(store, "anna", ttl=0.6, say=quiet),
        pytest.raises(ConflictError),
        held(store, "bert", ttl=1, wait=0.6 + MARGIN + 1, say=quiet),
    ):
        pass
    assert holder(store) is None


def test_of_a_dead_holder_it_is_taken(store: Store) -> None:
    said: list[str] = []
    with process(store, "anna", 0.6) as anna:
        assert line(anna) == "has it"
        anna.kill()
        begin = time.monotonic()
        with held(store, "bert", ttl=2, say=said.append) as lease:
            lease.check()
            assert MARGIN < time.monotonic() - begin < 6
    assert "waiting: anna" in said[0]
    assert "took over the lease of anna, which ran out at" in said[-1]


def test_a_holder_that_stood_still_finds_it_gone(store: Store) -> None:
    """And leaves the new one alone."""
    with process(store, "anna", 0.6) as anna:
        assert line(anna) == "has it"
        assert ask(anna) == "still has it"
        anna.send_signal(signal.SIGSTOP)
        with held(store, "bert", ttl=2, say=quiet) as lease:
            anna.send_signal(signal.SIGCONT)
            answer = ask(anna)
            assert answer.startswith("42 ") and "bert has it now" in answer, answer
            anna.wait()
            lease.check()
            entry = holder(store)
            assert entry is not None and entry["who"] == "bert"


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_an_interrupt_gives_it_back(store: Store, number: signal.Signals) -> None:
    with process(store, "anna", 60) as anna:
        assert line(anna) == "has it"
        anna.send_signal(number)
        assert line(anna) == "interrupted"
        with held(store, "bert", ttl=20, wait=0, say=quiet):
            pass


def test_an_interrupt_while_waiting_leaves_it_with_the_holder(store: Store) -> None:
    with held(store, "anna", ttl=60, say=quiet) as lease, process(store, "bert", 60) as bert:
        assert line(bert).startswith("waiting: anna")
        bert.send_signal(signal.SIGINT)
        assert line(bert) == "interrupted"
        lease._seen = 0.0
        lease.check()


def test_an_error_gives_it_back(store: Store) -> None:
    with pytest.raises(RuntimeError), held(store, "anna", say=quiet):
        raise RuntimeError
    assert holder(store) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"x"', b'{"id": null}', b'{"version": 1}', FREE])
def test_what_is_no_lease_holds_nothing(tmp_path: Path, content: bytes) -> None:
    store = FolderStore(tmp_path)
    store.replace(LEASE_KEY, content, expect=None, cache=NO_CACHE)
    with held(store, "anna", wait=0, say=quiet) as lease:
        lease.check()


def test_one_with_no_end_is_stale(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.replace(LEASE_KEY, b'{"id": "x", "until": "soon"}', expect=None, cache=NO_CACHE)
    said: list[str] = []
    with held(store, "anna", wait=0, say=said.append) as lease:
        lease.check()
    assert "somebody else" in said[0]


def remove(store: Store) -> None:
    store.delete(LEASE_KEY)


def overwrite(store: Store) -> None:
    found = store.read_with_etag(LEASE_KEY)
    assert found is not None
    content = b'{"id": "other", "who": "carl", "until": 9e9}'
    store.replace(LEASE_KEY, content, expect=found[1], cache=NO_CACHE)


@pytest.mark.parametrize("change", [remove, overwrite])
@pytest.mark.parametrize("notices", ["check", "renewal"])
def test_one_that_was_removed_by_hand(store: Store, change: Callable[[Store], None], notices: str) -> None:
    with held(store, "anna", ttl=0.6 if notices == "renewal" else 60, say=quiet) as lease:
        change(store)
        if notices == "renewal":
            time.sleep(0.5)
        else:
            lease._seen = 0.0  # as if a second had passed
        with pytest.raises(ConflictError, match=r"lost: (somebody removed it|carl has it now)"):
            lease.check()
    entry = holder(store)
    assert entry is None or entry["who"] == "carl"


class Unsteady(FolderStore):
    """Cannot be written while ``down``; its clock is an hour ahead of this machine's."""

    down = False

    def now(self) -> float:
        return super().now() + 3600

    def replace(self, key: str, content: bytes, *, expect: str | None, cache: str) -> str:
        if self.down:
            raise StorageError("down")
        return super().replace(key, content, expect=expect, cache=cache)


def test_a_store_that_fails_for_a_while(tmp_path: Path) -> None:
    store = Unsteady(tmp_path)
    with held(store, "anna", ttl=1.5, say=quiet) as lease:
        store.down = True
        time.sleep(0.4)
        lease.check()
        store.down = False
        time.sleep(0.8)
        lease.check()
        store.down = True
        time.sleep(1.6)
        with pytest.raises(StorageError):
            lease.check()
        store.down = False
        lease.check()
        entry = holder(store)
        assert entry is not None and 3598 < entry["until"] - time.time() < 3602


@pytest.mark.parametrize("publishers", [8, 3])
def test_never_two_at_a_time(
    publishers: int,
    tmp_path: Path,
    s3_server: S3Server,  # noqa: F811
) -> None:
    """Eight on a folder, three on S3; each has a store of its own, as processes have."""
    bucket = s3_server.bucket()
    inside, most, done = 0, 0, 0

    def publish(number: int) -> None:
        nonlocal inside, most, done
        from channel_tools.channel.stores.opening import open_store

        own = open_store(tmp_path / "channel" if publishers == 8 else f"s3://{bucket}/ch")
        with held(own, f"publisher {number}", ttl=5, say=quiet) as lease:
            inside += 1
            most = max(most, inside)
            time.sleep(0.05)
            lease.check()
            inside -= 1
            done += 1

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(publishers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, done) == (1, publishers)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = FolderStore(tmp_path / "file" / "channel")
    with pytest.raises(StorageError), held(store, "anna", say=quiet):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

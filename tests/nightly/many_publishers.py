"""Eight publishers at once on a folder and on S3, again and again.

python -m tests.nightly.many_publishers [--rounds 5] [--publishers 8]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from channel_tools.channel.init import init_channel
from channel_tools.channel.stores.folder_store import FolderStore
from channel_tools.channel.stores.s3_store import S3Store
from channel_tools.channel.stores.store import Store
from tests.integration.faults import MakeStore, publisher
from tests.integration.many import check_all_in, make_releases, publish_all, waited
from tests.integration.s3 import start_s3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--publishers", type=int, default=8)
    options = parser.parse_args()
    server = start_s3()
    os.environ.update(server.environment)
    with tempfile.TemporaryDirectory(prefix="many-publishers-") as scratch:
        folder = Path(scratch)
        releases = make_releases(folder / "packages", options.publishers)
        for number in range(options.rounds):
            for name, store, make in _stores(folder / str(number), server.bucket()):
                init_channel(store, {}, who="test")
                publisher(store).publish(releases[0])
                said = folder / str(number) / f"said-{name}"
                seconds = publish_all(make, releases[1:], said)
                check_all_in(store, releases)
                print(
                    f"round {number + 1}, {name}: {options.publishers} publishers in {seconds:.1f} s, "
                    f"{waited(said)} had to wait; all releases are in, no record lost or doubled",
                    flush=True,
                )


def _stores(folder: Path, bucket: str) -> list[tuple[str, Store, MakeStore]]:
    return [
        ("folder", FolderStore(folder / "channel"), lambda: FolderStore(folder / "channel")),
        ("S3", S3Store(bucket, "internal"), lambda: S3Store(bucket, "internal")),
    ]


if __name__ == "__main__":
    main()

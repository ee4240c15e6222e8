"""What py-rattler sees in a channel: ``python -m tests.integration.gateway_reader``, in a process of its own.

Reads ``{"channel": url, "names": [...], "specs": [...], "platforms": [...]}`` and writes
``{"records": {file name: record}, "removed": [file names], "solution": [file names]}``. The cache is a new
folder, so that it reads what the channel has now.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from typing import Any


async def _read(payload: dict[str, Any], cache: str) -> dict[str, Any]:
    from rattler import Channel, Gateway, solve

    gateway = Gateway(cache_dir=cache)
    sources = [Channel(payload["channel"])]
    answer = await gateway.query(sources, payload["platforms"], payload["names"], recursive=False)
    records = {record.file_name: json.loads(record.to_json()) for part in answer for record in part}
    solution = await solve(
        sources, payload["specs"], gateway=gateway, platforms=payload["platforms"], virtual_packages=[]
    )
    return {
        "records": records,
        "removed": sorted(removed.file_name for part in answer.removed for removed in part),
        "solution": sorted(record.file_name for record in solution),
    }


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gateway-") as cache:
        answer = asyncio.run(_read(json.load(sys.stdin), cache))
        json.dump(answer, sys.stdout)
        sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

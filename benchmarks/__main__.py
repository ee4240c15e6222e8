"""All benchmarks, one after another: ``python -m benchmarks [--small] [--runs N]``."""

from __future__ import annotations

import datetime

from benchmarks import channel_index, startup, verify_compressed, verify_conda, verify_headers, verify_scan
from benchmarks.measure import machine, settings


def main() -> None:
    how = settings(__doc__)
    print(f"{datetime.date.today().isoformat()}, {machine()}")
    for script in (verify_headers, verify_compressed, verify_scan, verify_conda, channel_index, startup):
        script.run(how)


if __name__ == "__main__":
    main()

"""The command ``rocm-canary`` of the wheel: becomes the program that lies in the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ._probe import BrokenInstallError

_PROGRAM = Path(__file__).parent / "bin" / "rocm-canary"


def main() -> None:
    try:
        os.execv(_PROGRAM, ["rocm-canary", *sys.argv[1:]])
    except OSError as error:
        print(f"rocm-canary: {_PROGRAM}: {error.strerror}; install the package again", file=sys.stderr)
        sys.exit(BrokenInstallError.status)


if __name__ == "__main__":
    main()

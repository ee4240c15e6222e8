"""Tuning data with a GPU's name in its own: Tensile's ``.dat`` files and MIOpen's databases.

They hold no code object, so their name is all that says what they are for. Tensile writes the processor
between underscores (``..._gfx90a.dat``); MIOpen writes the number of compute units behind it without a
separator (``gfx942130.HIP.fdb.txt``: gfx942, 0x130 units; ``gfx90a68.db.txt``).

Sources: files of Debian's rocBLAS and hipBLASLt; ``Handle::GetDbBasename`` of https://github.com/ROCm/MIOpen.
"""

from __future__ import annotations

import re
from typing import Final

from channel_tools.verify.targets import is_known_target

_SUFFIXES: Final = (".dat", ".db", ".db.txt", ".fdb.txt", ".kdb", ".ukdb", ".udb.txt", ".model")
_WORD = re.compile(r"(?:^|[^A-Za-z0-9])(gfx[0-9a-f]{3,})")


def named_processors(path: str) -> tuple[str, ...]:
    """The processors that a data file is named for, sorted; empty for a file that is none or names none."""
    name = path.rpartition("/")[2]
    if not name.endswith(_SUFFIXES):
        return ()
    found = (_processor(word) for word in _WORD.findall(name))
    return tuple(sorted({processor for processor in found if processor}))


def _processor(word: str) -> str | None:
    """The longest known processor that the word starts with: what follows is a number of compute units."""
    for end in range(len(word), len("gfx") + 2, -1):
        if is_known_target(word[:end]):
            return word[:end]
    return None

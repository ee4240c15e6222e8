"""``tarfile`` with extraction filters (PEP 706), which Debian 12's own Python 3.11.2 does not have yet."""

from __future__ import annotations

import tarfile as _standard
from typing import TYPE_CHECKING

if TYPE_CHECKING or hasattr(_standard, "data_filter"):
    import tarfile
else:
    from backports import tarfile

__all__ = ["tarfile"]

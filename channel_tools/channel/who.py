"""Who publishes, as leases, journals and release manifests name them."""

from __future__ import annotations

import getpass
import os
import socket


def publisher() -> str:
    """``user@host``; the number of a user that has no name."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"

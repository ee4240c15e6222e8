"""The one setting that virtual packages have: ``override_virtual_packages`` of ``.condarc``."""

import json
import os


class Context:
    @property
    def override_virtual_packages(self) -> dict[str, str]:
        """Names without underscores; here from ``STAND_IN_CONDARC``."""
        found: dict[str, str] = json.loads(os.environ.get("STAND_IN_CONDARC", "{}"))
        return found


context = Context()

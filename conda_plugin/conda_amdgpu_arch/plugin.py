"""What conda loads at each start: one hook, and nothing else until virtual packages are asked for.

The hook wraps those of all other plugins instead of standing beside them. conda stops with an error when two
plugins give a virtual package of one name; a wrapper sees what the others gave, and adds what is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conda.plugins.hookspec import hookimpl

if TYPE_CHECKING:
    from collections.abc import Generator


# In pluggy's older style, which pluggy 1.0 (conda 22.11) and today's have in common.
@hookimpl(hookwrapper=True)  # type: ignore[untyped-decorator]
def conda_virtual_packages() -> Generator[None, Any, None]:
    """The virtual packages of all plugins, and of ours those that no other plugin has."""
    outcome = yield
    if outcome.excinfo is None:
        from conda_amdgpu_arch.virtual_packages import completed

        outcome.force_result([completed(outcome.get_result())])

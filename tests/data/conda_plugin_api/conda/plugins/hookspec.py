"""The hooks that a plugin may implement: three of conda's."""

from collections.abc import Iterable
from typing import Any

import pluggy

spec_name = "conda"
_hookspec = pluggy.HookspecMarker(spec_name)
hookimpl = pluggy.HookimplMarker(spec_name)


class CondaSpecs:
    @_hookspec
    def conda_solvers(self) -> Iterable[Any]: ...

    @_hookspec
    def conda_subcommands(self) -> Iterable[Any]: ...

    @_hookspec
    def conda_virtual_packages(self) -> Iterable[Any]: ...

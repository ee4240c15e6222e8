"""Loads plugins from entry points and collects what their hooks give."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any

import pluggy

from conda import RELEASE
from conda.auxlib import NULL
from conda.exceptions import PluginError
from conda.models.records import PackageRecord
from conda.plugins.hookspec import CondaSpecs, spec_name


class _Marking:
    """A hook implementation whose results know it, unless it is a wrapper."""

    def __init__(self, impl: Any) -> None:
        self.impl = impl

    def __getattr__(self, name: str) -> Any:
        return getattr(self.impl, name)

    def function(self, *args: Any) -> Any:
        result = self.impl.function(*args)
        if self.impl.hookwrapper or self.impl.wrapper:
            return result
        return (self._marked(item) for item in result)

    def _marked(self, item: Any) -> Any:
        with suppress(AttributeError, TypeError):
            item.impl = self.impl
        return item


class CondaPluginManager(pluggy.PluginManager):
    def __init__(self) -> None:
        super().__init__(spec_name)
        self.add_hookspecs(CondaSpecs)

    def _hookexec(self, hook_name: Any, methods: Any, kwargs: Any, firstresult: Any) -> Any:
        if RELEASE["impl"]:
            methods = [_Marking(method) for method in methods]
        return super()._hookexec(hook_name, methods, kwargs, firstresult)

    def load_entrypoints(self, group: str) -> int:
        found = entry_points(group=group)
        for each in found:
            self.register(each.load())
        return len(found)

    def disable_external_plugins(self) -> None:
        for name, _ in self.list_name_plugin():
            if not name.startswith("conda.plugins."):
                self.set_blocked(name)

    def get_hook_results(self, name: str) -> list[Any]:
        items = [item for items in getattr(self.hook, f"{spec_name}_{name}")() for item in items]
        for item in items:
            assert item.name == item.name.lower().strip()
        twice = [name for name, count in Counter(item.name for item in items).items() if count > 1]
        if twice:
            raise PluginError(f"Conflicting plugins for {name}: {', '.join(twice)}")
        return sorted(items, key=lambda item: str(item.name))

    def get_virtual_package_records(self) -> list[PackageRecord]:
        records = [item.to_virtual_package() for item in self.get_hook_results("virtual_packages")]
        return [record for record in records if record is not NULL]

"""Errors that conda prints in a line. Their text is formatted with ``%``."""

from typing import Any


class CondaError(Exception):
    def __init__(self, message: str, **values: Any) -> None:
        super().__init__(message)
        self.message = message
        self.values = values

    def __str__(self) -> str:
        return self.message % self.values


class CondaValueError(CondaError, ValueError):
    pass


class PluginError(CondaError):
    pass

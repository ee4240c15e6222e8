"""JSON of index files: one way to write it, and reading that never surprises.

Keys are sorted and nothing is spaced out, so that the same content is the same bytes.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from pydantic import ValidationError

from channel_tools.model.errors import ChannelError

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def dump(data: Any, where: str) -> bytes:
    """Compact JSON in UTF-8.

    :raises ChannelError: it holds what JSON cannot, as the number NaN
    """
    try:
        return json.dumps(
            data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        ).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ChannelError("cannot be written as JSON", where=where, found=str(error)) from error


def problem_of(error: ValidationError) -> str:
    """The first thing that a model finds wrong, on one line."""
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc'])) or 'the whole'}: {problem['msg']}"


def load(content: bytes, where: str, *, fix: str) -> dict[str, Any]:
    """A JSON object that :func:`dump` can write again.

    :raises ChannelError: it is none
    """

    def constant(name: str) -> NoReturn:
        raise ValueError(f"the number {name}")

    try:
        data = json.loads(content, parse_constant=constant)
        if _SURROGATE.search(content):
            json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ChannelError("cannot be read as JSON", where=where, found=str(error), fix=fix) from error
    if not isinstance(data, dict):
        raise ChannelError("is JSON, but no object", where=where, found=type(data).__name__, fix=fix)
    return data

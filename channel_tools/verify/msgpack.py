"""MessagePack, as much as tables of contents need: https://github.com/msgpack/msgpack/blob/master/spec.md."""

from __future__ import annotations

import struct
from typing import Any, Final

from channel_tools.verify.source import Source, printable

_MAX_DEPTH: Final = 32
_MAX_VALUES: Final = 500_000
_NUMBERS: Final = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_SIZED: Final = {
    0xC4: (">B", "bin"),
    0xC5: (">H", "bin"),
    0xC6: (">I", "bin"),
    0xD9: (">B", "str"),
    0xDA: (">H", "str"),
    0xDB: (">I", "str"),
    0xDC: (">H", "array"),
    0xDD: (">I", "array"),
    0xDE: (">H", "map"),
    0xDF: (">I", "map"),
}
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}


def unpack_msgpack(source: Source) -> Any:
    """The one value that ``source`` holds: dict, list, str, bytes, int, float, bool or None.

    :raises DamageError: cut data, a type that tables of contents do not use, or bytes after the value
    """
    reader = _Reader(source)
    value = reader.value(0)
    if reader.position != source.size:
        raise source.damage(
            "data after a MessagePack value",
            reader.position,
            found=f"{source.size - reader.position} bytes",
            wanted="the end",
        )
    return value


class _Reader:
    def __init__(self, source: Source) -> None:
        self.position = 0
        self._source = source
        self._values = 0

    def value(self, depth: int) -> Any:
        start = self.position
        self._values += 1
        if self._values > _MAX_VALUES:
            raise self._source.damage(
                "MessagePack data", start, found=f"more than {_MAX_VALUES} values", wanted="no more than that"
            )
        tag = self._take(1)[0]
        if depth > _MAX_DEPTH:
            raise self._source.damage(
                "MessagePack value", start, found="deeper nesting", wanted=f"at most {_MAX_DEPTH} levels"
            )
        if tag < 0x80:
            return tag
        if tag >= 0xE0:
            return tag - 0x100
        if tag < 0x90:
            return self._sized("map", tag & 0x0F, depth)
        if tag < 0xA0:
            return self._sized("array", tag & 0x0F, depth)
        if tag < 0xC0:
            return self._sized("str", tag & 0x1F, depth)
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if tag in _NUMBERS:
            return self._number(_NUMBERS[tag])
        if tag in _SIZED:
            layout, kind = _SIZED[tag]
            return self._sized(kind, self._number(layout), depth)
        raise self._source.damage(
            "MessagePack value", start, found=f"type {tag:#x}", wanted="a map, list, text, bytes or number"
        )

    def _sized(self, kind: str, size: int, depth: int) -> Any:
        if kind == "str":
            return printable(self._take(size))
        if kind == "bin":
            return self._take(size)
        if size > self._source.size - self.position:
            raise self._source.damage(
                f"MessagePack {kind}", self.position, found=f"{size} items", wanted="no more items than bytes"
            )
        if kind == "array":
            return [self.value(depth + 1) for _ in range(size)]
        result = {}
        for _ in range(size):
            key = self.value(depth + 1)
            if not isinstance(key, str | int):
                raise self._source.damage(
                    "MessagePack map", self.position, found=type(key).__name__, wanted="text as key"
                )
            result[key] = self.value(depth + 1)
        return result

    def _number(self, layout: str) -> Any:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))[0]

    def _take(self, size: int) -> bytes:
        data = self._source.read(self.position, size, "MessagePack value")
        self.position += size
        return data

"""Code objects that lie anywhere in a file: in plain data, or where the section table is gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from channel_tools.verify import bundles, offload_binary, search
from channel_tools.verify.findings import Findings
from channel_tools.verify.images import read_bare
from channel_tools.verify.source import DamageError, Source

_MAX_DAMAGED: Final = 20
_WRAPPER_SIZE: Final = 24


def read_embedded(
    source: Source, known: list[tuple[int, int]], findings: Findings, *, begin: bool = False
) -> None:
    """Record every code object and bundle of ``source`` outside ``known``.

    :param known: (start, end) of the parts that were read already
    :param begin: as for :func:`bundles.read_bundle`
    :raises DamageError: a file that cannot be searched in bounded time
    """
    damaged = 0
    for start, end in _gaps(source.size, known):
        find = source.finder(start, end)
        position = start
        while (hit := find(position)) is not None:
            try:
                position = _read_hit(source, hit, end, findings, begin)
            except DamageError as damage:
                findings.add_damage(damage)
                position = hit + 1
                damaged += 1
                if damaged == _MAX_DAMAGED:
                    return


def _gaps(size: int, known: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    position = 0
    for start, end in [*sorted(known), (size, size)]:
        if start > position:
            yield position, start
        position = max(position, end)


def _read_hit(source: Source, hit: int, end: int, findings: Findings, begin: bool) -> int:
    """Read what starts at ``hit`` if it is real; return the offset from which to look on.

    :raises DamageError: it looked real, and is not sound
    """
    head = source.peek(hit, min(search.HEAD, end - hit))
    part = source.window(hit, end - hit, "embedded code")
    if search.looks_like_code_object(head):
        after = hit + read_bare(part, findings)
    elif search.looks_like_bundle(head) or search.looks_compressed(head, part.size):
        after = hit + bundles.read_bundle(part, 0, findings, begin=begin)
    elif search.looks_like_offload_binary(head, part.size):
        after = hit + offload_binary.read_offload_binary(part, 0, findings)
    elif search.looks_like_wrapper(head):
        return _pass_wrappers(part, hit)
    else:
        return hit + 1
    return min(source.skip_zeros(after), end)


def _pass_wrappers(part: Source, hit: int) -> int:
    """Fat binary wrappers hold no code. A look at them keeps them, where a file passes once."""
    offset = 0
    while search.looks_like_wrapper(part.peek(offset, _WRAPPER_SIZE)):
        offset += _WRAPPER_SIZE
    return hit + max(offset, 1)

"""The order of channels in a configuration: ours first, then those that it needs, then the others."""

from __future__ import annotations

from collections.abc import Sequence


def merge_order(
    present: Sequence[str], channels: Sequence[str], ours: Sequence[str]
) -> tuple[list[str], list[int], list[str]]:
    """What to insert in front, which positions to delete first, and the labels of ours that go away.

    Channels of others that are there already stay where they are: they come after ours wherever that is.

    :param present: entries that are there, in order
    :param channels: entries that are wanted, in order, ours first
    :param ours: addresses and names of our channel
    """
    wanted = [one.rstrip("/") for one in channels]
    own = [one for one in wanted if is_ours(one, ours)]
    here = [one.rstrip("/") for one in present]
    others = [one for one in wanted if one not in own]
    missing = [one for one in others if one not in here]
    if here[: len(own)] == own and not any(is_ours(one, ours) for one in here[len(own) :]) and not missing:
        return [], [], []
    delete = [position for position, one in enumerate(here) if is_ours(one, ours)]
    gone = [present[position] for position in delete if here[position] not in own]
    return [*own, *missing], delete, [one for one in gone if "/label/" in one]


def is_ours(entry: str, ours: Sequence[str]) -> bool:
    """Is an entry, without a final ``/``, one of these channels or a label of one?"""
    return any(entry == one or entry.startswith(f"{one}/label/") for one in ours)

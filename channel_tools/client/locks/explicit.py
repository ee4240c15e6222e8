"""Explicit lists (``@EXPLICIT``), as CEP 23 has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from channel_tools.client.solving import Record
from channel_tools.model.errors import LockError


def write_explicit(
    records: Sequence[Record], channels: Sequence[str], platform: str, title: str, *, md5: bool = False
) -> str:
    """The list of one environment, dependencies before what needs them.

    :param records: whole ones, without credentials
    :param md5: the older digest, which conda before 24.9 takes alone
    :raises LockError: a package without that digest
    """
    lines = [f"# {title}"]
    lines += [f"# channel: {channel}" for channel in channels]
    lines += [f"# platform: {platform}", "@EXPLICIT"]
    for record in in_order(records):
        digest = record["record"].get("md5") if md5 else record.get("sha256")
        if not digest:
            raise LockError(
                f"the channel's index has no {'MD5' if md5 else 'SHA-256'} of a package", found=record["url"]
            )
        lines.append(f"{record['url']}#{'' if md5 else 'sha256:'}{digest}")
    return "\n".join(lines) + "\n"


def in_order(records: Sequence[Record]) -> list[Record]:
    """Records with dependencies first, else by name; a circle is entered at its first name."""
    by_name: Mapping[str, Record] = {str(one["name"]): one for one in sorted(records, key=_name)}
    found: dict[str, Record] = {}

    def visit(start: str) -> None:
        open_: list[tuple[str, Iterable[str]]] = [(start, iter(_needs(by_name[start])))]
        entered = {start}
        while open_:
            name, needs = open_[-1]
            for need in needs:
                if need in by_name and need not in found and need not in entered:
                    entered.add(need)
                    open_.append((need, iter(_needs(by_name[need]))))
                    break
            else:
                found[name] = by_name[name]
                open_.pop()

    for name in by_name:
        if name not in found:
            visit(name)
    return list(found.values())


def _name(record: Record) -> str:
    return str(record["name"])


def _needs(record: Record) -> list[str]:
    from channel_tools.build.nodes import spec_name

    return sorted(spec_name(spec) for spec in record["record"].get("depends", ()))

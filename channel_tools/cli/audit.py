"""``rocm-channel audit``: is everything in a channel what everything else says it is?"""

from __future__ import annotations

from typing import Annotated

import typer

from channel_tools.cli import options
from channel_tools.cli.care import Address


def audit(
    channel: Address,
    verify: Annotated[
        bool, typer.Option("--verify", help="Also verify the binaries of every released package again.")
    ] = False,
    trusted_root: options.TrustedRoot = None,
    json_: options.Json = False,
) -> None:
    """Hash every package again; compare files, indexes, labels, manifests, attestations and yanked builds.

    Nothing is written. Exit code 0: all agree; 45: something differs, and everything that does is listed.
    """
    from channel_tools.channel.care.audit import audit as look
    from channel_tools.channel.stores.opening import open_store
    from channel_tools.cli.progress import ByteBars
    from channel_tools.model.errors import AuditError

    store = open_store(channel)
    with ByteBars(quiet=json_) as bars:
        done = 0

        def progress(_key: str, size: int) -> None:
            nonlocal done
            done += size
            bars.update("packages read", done, None)

        result = look(
            store,
            verify=(bars.say if not json_ else lambda line: None) if verify else None,
            trusted_root=trusted_root,
            progress=progress,
        )
    if json_:
        options.print_json({"version": 1, "channel": store.address, **result.to_json()})
    else:
        for finding in result.findings:
            for line in finding.lines():
                typer.echo(line)
        for note in result.notes:
            typer.echo(f"note: {note}")
        typer.echo(f"{result.packages} packages read, {result.size / 2**20:.1f} MiB")
    if result.findings:
        count = len(result.findings)
        raise AuditError(
            "one thing differs" if count == 1 else f"{count} things differ",
            where=store.address,
            fix="see the list; each line has what to do",
        )
    if not json_:
        typer.echo(f"{store.address}: everything agrees")

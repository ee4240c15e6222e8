"""``rocm-channel upload``: releases of a channel of ours, sent to a package server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.channel.layout import ARCH_PACKAGE, ROCM_PACKAGE, label_of
from channel_tools.cli import options

if TYPE_CHECKING:
    from channel_tools.channel.servers.upload_targets import Upload


def upload(
    channel: Annotated[str, typer.Argument(help="Channel that has the release: folder or s3://.")],
    to: Annotated[
        str,
        typer.Option(
            "--to", help="prefix:URL, anaconda:OWNER, artifactory:URL, quetz:URL or cloudsmith:OWNER/REPO."
        ),
    ],
    release: Annotated[
        list[str] | None,
        typer.Option("--release", help="Id of a release; may be repeated (default: the newest)."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Compare with the server; send nothing.")
    ] = False,
    json_: options.Json = False,
) -> None:
    """Send releases to a package server; nothing there is overwritten."""
    from channel_tools.channel.servers.upload_release import upload_releases
    from channel_tools.channel.servers.upload_targets import install_commands, parse_target
    from channel_tools.channel.settings import Settings, read_settings
    from channel_tools.channel.stores.opening import open_store

    target, store = parse_target(to), open_store(channel)
    sent = upload_releases(
        store, release or (), target, say=lambda line: typer.echo(line, err=True), dry_run=dry_run
    )
    settings = read_settings(store) or Settings()
    commands = {
        label or "found by the client": install_commands(
            target, label, _package(sent), settings.dependency_channels
        )
        for label in _labels(sent)
    }
    if json_:
        options.print_json(
            {
                "version": 1,
                "target": target.url,
                "dry_run": dry_run,
                "sent": [item.key for item in sent],
                "install": commands,
            }
        )
        return
    typer.echo(f"{len(sent)} packages {'would be sent' if dry_run else 'were sent'} to {target.url}")
    if any(label_of(item.key) for item in sent) and not target.has_labels:
        typer.echo("this service knows no labels: each is a channel of its own, beside the main one")
    for machine, by_client in commands.items() if sent else ():
        typer.echo(f"GPU and ROCm {machine}:")
        for command in by_client.values():
            typer.echo(f"  {command}")


def _labels(sent: Sequence[Upload]) -> list[str | None]:
    """The labels that consumers name: of an arch together with a release, where there are such."""
    labels = {label for item in sent if (label := label_of(item.key))}
    both = {label for label in labels if "-rocm" in label}
    return [*sorted(both or labels), None]


def _package(sent: Sequence[Upload]) -> str:
    """What the commands install: the top of the stack, if it was sent, but nothing that only selects."""
    from channel_tools.channel.page.commands import top_package

    names = {item.name.rsplit("-", 2)[0] for item in sent if label_of(item.key) is None}
    return top_package(names - {ARCH_PACKAGE, ROCM_PACKAGE} or names or {"vllm-rocm"})

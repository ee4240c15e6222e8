"""``rocm-channel channel``: making a channel, and tidying up after a publisher that died."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import options

if TYPE_CHECKING:
    from channel_tools.channel.settings import Settings

app = typer.Typer(
    help="Make a channel, or repair one.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
Address = Annotated[str, typer.Argument(help="Folder, file:///folder or s3://bucket/prefix.")]


@app.command()
def init(
    address: Address,
    url: Annotated[str | None, typer.Option("--url", help="Where consumers read the channel.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="As consumers call it: internal.")] = None,
    dependency_channels: Annotated[
        list[str] | None,
        typer.Option("--dependency-channel", help="Channel that consumers add after it; may be repeated."),
    ] = None,
    toolchain: Annotated[
        str | None, typer.Option("--toolchain", help="conda, or host: for builds against this host's tools.")
    ] = None,
    attestations: Annotated[
        str | None, typer.Option("--attestations", help="off, warn or require (default: off).")
    ] = None,
    publishers: Annotated[
        list[str] | None,
        typer.Option("--publisher", help="identity=...,issuer=... of who may sign; may be repeated."),
    ] = None,
    change: Annotated[
        bool, typer.Option("--change", help="Change the settings of a channel that is there.")
    ] = False,
    json_: options.Json = False,
) -> None:
    """Make an empty channel. What is named with --change is changed, everything else stays."""
    from channel_tools.channel.init import init_channel
    from channel_tools.channel.stores.opening import open_store
    from channel_tools.channel.who import publisher

    options.check_toolchain(toolchain)
    if attestations not in (None, "off", "warn", "require"):
        raise typer.BadParameter("is off, warn or require", param_hint="--attestations")
    given = {
        "url": url,
        "name": name,
        "dependency_channels": dependency_channels,
        "toolchain": toolchain,
        "attestations": attestations,
        "publishers": [_publisher(text) for text in publishers] if publishers else None,
    }
    store = open_store(address)
    settings, changed = init_channel(
        store,
        {key: value for key, value in given.items() if value is not None},
        who=publisher(),
        change=change,
        say=lambda line: typer.echo(line, err=True),
    )
    for note in _missing(settings):
        typer.echo(f"note: {note}", err=True)
    if json_:
        options.print_json({"version": 1, "changed": changed, "settings": settings.model_dump(mode="json")})
    elif changed:
        verb = "changed the settings of" if change else "made the channel"
        typer.echo(f"{verb} {store.address}{f', which is read at {settings.url}' if settings.url else ''}")
    else:
        typer.echo(f"nothing to do: {store.address} is a channel with these settings")


@app.command()
def repair(
    address: Address,
    reindex: Annotated[
        bool, typer.Option("--reindex", help="Write every index anew, from all packages of the channel.")
    ] = False,
    json_: options.Json = False,
) -> None:
    """Complete or undo what a publisher left half done, and write anew the indexes that cannot be read."""
    from channel_tools.channel.stores.opening import open_store
    from channel_tools.channel.transaction.reindex import repair_all
    from channel_tools.channel.who import publisher

    store = open_store(address)
    done = repair_all(store, who=publisher(), reindex=reindex, say=lambda line: typer.echo(line, err=True))
    if json_:
        options.print_json({"version": 1, "done": done})
    elif done:
        for line in done:
            typer.echo(line)
    else:
        typer.echo("nothing to repair")


def _missing(settings: Settings) -> list[str]:
    """What attestations need and the channel has not."""
    if settings.attestations == "off":
        return []
    found = [] if settings.url else ["attestations name the channel's address, and it has none: --url"]
    return found if settings.publishers else [*found, "nobody is named who may sign: --publisher"]


def _publisher(text: str) -> dict[str, str]:
    parts = dict(part.partition("=")[::2] for part in text.split(",", 1) if "=" in part)
    if set(parts) != {"identity", "issuer"} or not all(parts.values()):
        raise typer.BadParameter("is identity=...,issuer=...", param_hint="--publisher")
    return parts

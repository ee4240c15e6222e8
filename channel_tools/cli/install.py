"""``rocm-channel install``: the packages that fit this host, into a prefix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from channel_tools.cli import given, options

if TYPE_CHECKING:
    from channel_tools.channel.settings import Publisher
    from channel_tools.client.install import Prepared

Address = Annotated[
    str | None,
    typer.Option(
        "--channel",
        parser=given.text,
        help="Folder, file://, https:// or s3:// address, or a name of .condarc (default: ./channel).",
    ),
]


def install(
    specs: Annotated[
        list[str] | None, typer.Argument(help="What to install, as conda match specs.", metavar="SPECS")
    ] = None,
    prefix: Annotated[
        Path | None, typer.Option("--prefix", "-p", parser=given.path, help="Folder of the environment.")
    ] = None,
    channel: Address = None,
    arch: Annotated[
        str | None, typer.Option("--arch", help="GPU target it is for, when that is not this host's GPU.")
    ] = None,
    rocm: Annotated[
        str | None, typer.Option("--rocm", help="ROCm release it is for, when that is not this host's.")
    ] = None,
    more_channels: Annotated[
        list[str] | None,
        typer.Option("-c", parser=given.text, help="Further channel, as conda-forge; may be repeated."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", parser=given.path, help="Lock file: the environment will hold exactly what it lists."
        ),
    ] = None,
    priority: Annotated[
        str, typer.Option("--priority", help="strict: a name comes from its first channel; or flexible.")
    ] = "strict",
    attestations: Annotated[
        str | None,
        typer.Option("--attestations", help="off, warn or require (default: as the channel says)."),
    ] = None,
    trusted_root: options.TrustedRoot = None,
    identity: Annotated[
        list[str] | None, typer.Option("--identity", help="Who may sign; with --issuer, may be repeated.")
    ] = None,
    issuer: Annotated[
        list[str] | None, typer.Option("--issuer", help="OIDC issuer of the --identity in the same place.")
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Make the named packages newer where they are installed already.")
    ] = False,
    attested_as: Annotated[
        str | None,
        typer.Option("--attested-as", help="Address that attestations name, of a mirror's original."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Solve only.")] = False,
    json_: options.Json = False,
) -> None:
    """Install the builds that are made for this host's GPU and ROCm, or refuse with the reason."""
    from channel_tools.client.install import attested, prepare
    from channel_tools.client.reader import open_dependency, open_reader, printable

    if prefix is None and not dry_run:
        raise typer.BadParameter("is needed, except with --dry-run", param_hint="--prefix")
    if bool(specs) == bool(file):
        raise typer.BadParameter("name what to install, or a lock file with --file", param_hint="SPECS")
    if priority not in ("strict", "flexible"):
        raise typer.BadParameter("is strict or flexible", param_hint="--priority")
    if attestations not in (None, "off", "warn", "require"):
        raise typer.BadParameter("is off, warn or require", param_hint="--attestations")
    publishers = _publishers(identity, issuer)
    for option, value in (
        ("-c", more_channels),
        ("--rocm", rocm),
        ("--update", update),
        ("--priority", priority != "strict"),
    ):
        if file is not None and value:
            raise typer.BadParameter("a lock file decides that already; leave it out", param_hint=option)
    if file is not None:
        prepared = _locked(file, channel, arch)
    else:
        prepared = prepare(
            open_reader(channel or options.DEFAULT_CHANNEL),
            specs or [],
            prefix=prefix,
            arch=arch,
            rocm=rocm,
            others=[open_dependency(one) for one in more_channels or ()],
            priority="flexible" if priority == "flexible" else "strict",
            update=update,
        )
    prepared = attested(prepared, attestations, trusted_root, publishers, attested_as)  # type: ignore[arg-type]
    notes = [*_public(more_channels), *prepared.notes]
    if not json_:
        for note in notes:
            typer.echo(f"note: {printable(note)}", err=True)
    if prefix is not None and not dry_run:
        _place(prefix, prepared)
    _print(prepared, notes, prefix, dry_run, json_)


def _place(prefix: Path, prepared: Prepared) -> None:
    from channel_tools.client.placing import place
    from channel_tools.client.prefix_facts import UNFINISHED

    try:
        place(prefix, prepared.records)
    except KeyboardInterrupt:
        if (prefix / UNFINISHED).exists():
            typer.echo(f"{prefix}: is incomplete, until an installation into it ends well", err=True)
        raise


def _locked(file: Path, channel: str | None, arch: str | None) -> Prepared:
    from channel_tools.client.host import detect_host
    from channel_tools.client.locked import prepare_locked, read_locked
    from channel_tools.client.reader import open_reader

    host = detect_host()
    return prepare_locked(
        read_locked(file, arch, host), open_reader(channel) if channel else None, host, arch
    )


def _public(channels: list[str] | None) -> list[str]:
    """A word about names that nothing on this host maps."""
    from channel_tools.client.configuring.channel_names import PUBLIC, is_name
    from channel_tools.client.reader import open_dependency

    return [
        f"{one} is no name of this host's configuration: it is the public channel that somebody has under it"
        for one in channels or ()
        if is_name(one) and one not in PUBLIC and open_dependency(one) == one
    ]


def _publishers(identities: list[str] | None, issuers: list[str] | None) -> list[Publisher]:
    from channel_tools.channel.settings import Publisher

    if len(identities or ()) != len(issuers or ()):
        raise typer.BadParameter("each --identity needs an --issuer", param_hint="--identity")
    pairs = zip(identities or (), issuers or (), strict=True)
    return [Publisher(identity=identity, issuer=issuer) for identity, issuer in pairs]


def _print(prepared: Prepared, notes: list[str], prefix: Path | None, dry_run: bool, json_: bool) -> None:
    if json_:
        options.print_json(
            {
                "version": 1,
                "prefix": str(prefix) if prefix else None,
                "packages": prepared.to_json(),
                "notes": notes,
                "attestations": [outcome.to_json() for outcome in prepared.outcomes],
            }
        )
        return
    for record in prepared.records:
        typer.echo(f"  {record['name']:<20} {record['version']:<12} {record['build']}")
    if dry_run:
        typer.echo("this would be installed" + (f" in {prefix}" if prefix else "; nothing was"))
    else:
        typer.echo(f"installed in {prefix}")

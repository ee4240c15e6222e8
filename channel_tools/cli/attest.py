"""``rocm-channel attest``: sign a package for a channel, and check who signed one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from channel_tools.channel.layout import SUFFIXES
from channel_tools.cli import given, options

app = typer.Typer(
    help="Attestations: who published this file, and to which channel?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

ChannelUrl = Annotated[
    str, typer.Option("--channel", help="URL of the channel, as consumers name it; a label's with the label.")
]
Packages = Annotated[list[Path], typer.Argument(parser=given.file, help="Package files.")]


def _check_packages(packages: list[Path]) -> None:
    for package in packages:
        if not package.name.endswith(SUFFIXES):
            raise typer.BadParameter(f"{package} is no {' or '.join(SUFFIXES)} file", param_hint="PACKAGES")


@app.command("verify")
def verify(
    packages: Packages,
    channel: ChannelUrl,
    identity: Annotated[
        list[str],
        typer.Option("--identity", help="Who must have signed; may be repeated, with an --issuer each."),
    ],
    issuer: Annotated[list[str], typer.Option("--issuer", help="OIDC issuer of that identity.")],
    trusted_root: options.TrustedRoot = None,
    json_: options.Json = False,
) -> None:
    """Check the attestations that lie beside package files (FILE.sigs), without network.

    Exit code 0: each file was signed by such an identity for this channel; 43: one was not.
    """
    from channel_tools.channel.addresses import consumer_url
    from channel_tools.channel.attestations.check import check_all, question_of_file
    from channel_tools.channel.attestations.outcome import demand
    from channel_tools.channel.attestations.policy import Policy
    from channel_tools.channel.settings import Publisher

    _check_packages(packages)
    if len(identity) != len(issuer):
        raise typer.BadParameter("one for each --identity", param_hint="--issuer")
    channel = consumer_url(channel, "the channel", "--channel")
    publishers = [Publisher(identity=i, issuer=u) for i, u in zip(identity, issuer, strict=True)]
    policy = Policy.of(None, trusted_root, "require", publishers)
    outcomes = check_all([question_of_file(package, channel) for package in packages], policy)
    if json_:
        options.print_json({"version": 1, "files": [outcome.to_json() for outcome in outcomes]})
    else:
        for outcome in outcomes:
            if outcome.verified:
                typer.echo(outcome.text)
    demand(outcomes)


@app.command("create")
def create(
    packages: Packages,
    channel: ChannelUrl,
    trust_config: Annotated[
        Path | None,
        typer.Option(
            "--trust-config",
            parser=given.path,
            help="Trust configuration of a private instance (default: the public one).",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the statements; sign nothing.")] = False,
    json_: options.Json = False,
) -> None:
    """Sign package files for a channel and put the attestation beside each (FILE.sigs).

    `publish` and `promote` do that themselves; this is for files that go to a server by other ways.
    """
    from channel_tools.channel.addresses import consumer_url
    from channel_tools.channel.attestations.making import sign, statement
    from channel_tools.channel.attestations.sidecar import add_to_file
    from channel_tools.channel.attestations.signer import Signer
    from channel_tools.model.package import sha256

    _check_packages(packages)
    channel = consumer_url(channel, "the channel", "--channel")
    if dry_run:
        statements = [statement(package.name, sha256(package), channel).decode() for package in packages]
        if json_:
            options.print_json({"version": 1, "statements": [json.loads(text) for text in statements]})
        for text in () if json_ else statements:
            typer.echo(text)
        return
    signer = Signer(trust_config)
    files = []
    for package in packages:
        bundle, outcome = sign(package.name, sha256(package), channel, signer)
        files.append(outcome.to_json() | {"sigs": str(add_to_file(package, bundle))})
        if not json_:
            typer.echo(outcome.text)
    if json_:
        options.print_json({"version": 1, "files": files})

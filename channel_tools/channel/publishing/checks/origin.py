"""Where a package was made: never against this host's own tools, and with nothing of this host in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from channel_tools.channel.publishing.checks.reasons import Candidate, Reason
from channel_tools.model.package import Package


def host_tools(candidate: Candidate) -> Iterator[Reason]:
    """Builds against the host's own compiler, or the Debian SDK, stay in a channel made for them."""
    if candidate.local:
        return
    for build, package in zip(candidate.builds, candidate.packages, strict=True):
        if package.toolchain == "host":
            yield Reason(
                "host-tools",
                build.where,
                "was built against this host's own tools, which no other host has",
                found="toolchain host",
                wanted="toolchain conda",
                fix="build it with a channel that has compilers (`rocm-channel build -c conda-forge`), or "
                "publish it to a folder made for such builds (`channel init --toolchain host`)",
            )
        elif package.extra.get("hip_sdk") == "debian":
            yield Reason(
                "host-tools",
                build.where,
                "was built against the SDK made from Debian packages, which is no ROCm release",
                found="hip_sdk debian",
                wanted="hip_sdk rocm",
                fix="build it on a host with ROCm",
            )


def one_toolchain(candidate: Candidate) -> Iterator[Reason]:
    """A channel holds builds of one toolchain, so that no solve mixes them."""
    used = {p.toolchain for p in candidate.packages if p.toolchain is not None}
    wanted = candidate.settings.toolchain
    if wanted is None and len(used) < 2:
        return
    for package in candidate.packages:
        if package.toolchain is not None and (wanted is None or package.toolchain != wanted):
            yield Reason(
                "toolchain",
                package.path.name,
                "is of another toolchain than the channel's"
                if wanted
                else "is one of several toolchains, and a channel takes builds of one only",
                found=package.toolchain,
                wanted=wanted or " or ".join(sorted(used)),
                fix="publish it to another channel",
            )


def verified(candidate: Candidate) -> Iterator[Reason]:
    """No package enters a channel unless its binaries were read and found right."""
    for package in candidate.packages:
        report = candidate.reports.get(package.path)
        if report is None or report.verdict != "pass":
            yield Reason(
                "verify",
                package.path.name,
                "was not verified" if report is None else "does not pass verification",
                fix="see `rocm-channel verify` with that file",
            )


def local_addresses(candidate: Candidate) -> Iterator[Reason]:
    """``about.json`` goes to every consumer; addresses of this host's folders mean nothing there."""
    if candidate.local:
        return
    for package in candidate.packages:
        found = [url for url in candidate.channels_of(package) if url.startswith("file:")]
        if found:
            yield Reason(
                "local-address",
                package.path.name,
                "names folders of the build host in info/about.json, as channels",
                found=found[0],
                wanted="addresses that consumers can read, or none",
                fix="build it again with channels that have an address",
            )


def build_channels(package: Package) -> Sequence[str]:
    """The ``channels`` of ``info/about.json``.

    :raises DamagedFileError: the package cannot be read
    """
    import json

    from conda_package_streaming.package_streaming import stream_conda_info

    from channel_tools.channel.index.records import package_errors

    with package_errors(str(package.path)):
        for tar, member in stream_conda_info(str(package.path)):
            if member.name == "info/about.json":
                handle = tar.extractfile(member)
                about = json.load(handle) if handle else {}
                return [str(url) for url in about.get("channels") or ()]
    return []

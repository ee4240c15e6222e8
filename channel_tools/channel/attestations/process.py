"""The part of checking attestations that runs in the child process: py-rattler's verifier, for many files.

It never asks for trust material over the network. Sidecars are fetched from where the records say, with the
client's own credentials, and nothing is fetched for a folder.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

_AT_ONCE = 16
_SIGNER = re.compile(r"valid signature by (\S+) \(issuer ")

Json = dict[str, Any]


def verify_all(payload: Json) -> list[Json]:
    """Check every item of ``{"items": [...], "publishers": [[identity, issuer], ...], "trusted_root": text}``

    An item has ``file_name``, ``sha256``, ``channel`` (the URL that must be attested), ``url`` (of the
    package, with ``.sigs.<sha256>`` beside it) and ``attestations_sha256``. No publisher: any that the
    trusted root knows. No trusted root: the public instance's, as py-rattler has it built in.

    :returns: for each item ``{"ok": {...}}`` or ``{"reasons": [text, ...]}``
    """
    return asyncio.run(_verify_all(payload))


async def _verify_all(payload: Json) -> list[Json]:
    from rattler.sigstore import TrustedRoot

    text = payload.get("trusted_root")
    root = TrustedRoot.embedded() if text is None else TrustedRoot.from_json(text)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(item: Json) -> Json:
        async with gate:
            return await _verify(item, payload.get("publishers") or [[None, None]], root)

    return list(await asyncio.gather(*(one(item) for item in payload["items"])))


async def _verify(item: Json, publishers: list[list[str | None]], root: Any) -> Json:
    from rattler.exceptions import AttestationError
    from rattler.sigstore import Issuer, Publisher, VerificationPolicy, verify_attestation

    try:
        record = _record(item)
    except (TypeError, ValueError) as error:
        return {"reasons": [f"the record cannot be read: {error}"]}
    reasons: list[str] = []
    waiting = list(publishers)
    while waiting:
        identity, issuer = waiting.pop(0)
        publisher = Publisher(identity, None if issuer is None else Issuer(issuer))
        try:
            outcome = await verify_attestation(
                record, VerificationPolicy.require(publisher), trusted_root=root
            )
        except AttestationError as error:
            lines = _lines(str(error))
            reasons += [line for line in lines if line not in reasons]
            waiting += [[one, issuer] for one in _of_pattern(identity, lines)]
            continue
        found = outcome.attestation
        # A statement without a channel satisfies py-rattler, and would be good for any channel.
        if found is None or found.target_channel is None:
            reasons.append("the attestation names no channel")
            continue
        checks = found.checks
        if not (checks.certificate_chain and checks.signed_certificate_timestamp and checks.transparency_log):
            reasons.append("the certificate or its place in the log was not verified")
            continue
        return {
            "ok": {
                "identity": found.identity,
                "issuer": found.issuer,
                "signed_at": found.integrated_time or found.signed_at,
                "channel": found.target_channel,
                "log": found.log_origin,
                "log_index": found.log_index,
            }
        }
    return {"reasons": reasons}


def _of_pattern(identity: str | None, reasons: list[str]) -> list[str]:
    """Valid signers, by py-rattler's reasons, that an identity with a final ``*`` stands for.

    They are asked for once more by their whole names, so that the verdict never hangs on that text.
    """
    if identity is None or not identity.endswith("*"):
        return []
    signers = [found[1] for reason in reasons if (found := _SIGNER.search(reason))]
    return [one for one in signers if one.startswith(identity[:-1]) and "*" not in one]


def _record(item: Json) -> Any:
    from rattler import BuildString, PackageRecord
    from rattler.repo_data import RepoDataRecord

    stem = item["file_name"].removesuffix(".conda").removesuffix(".tar.bz2")
    name, version, build = stem.rsplit("-", 2)
    package = PackageRecord(
        name=name,
        version=version,
        build=BuildString(build),
        build_number=0,
        subdir=item["url"].split("/")[-2],
        sha256=bytes.fromhex(item["sha256"]),
        attestations_sha256=bytes.fromhex(item["attestations_sha256"]),
    )
    return RepoDataRecord(package, item["file_name"], item["url"], item["channel"])


def _lines(message: str) -> list[str]:
    """py-rattler lists a reason for each bundle with a dash; other errors have a cause below a first line."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    listed = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    return listed or [" ".join(lines) or "no reason was given"]

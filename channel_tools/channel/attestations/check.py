"""Checking attestations with py-rattler: at publish, at audit, at install, and by hand. Needs no network.

What is checked of each bundle (Sigstore's rules, CEP 27 and ours): the certificate chains to the trusted root
and was valid when the log or a time stamp says that it signed; both logs' keys vouch for certificate and
signature; the statement names this file, this sha256 and this channel; the certificate names a publisher.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from channel_tools import rattler_process
from channel_tools.channel.attestations.outcome import Outcome, Verdict, failure
from channel_tools.channel.attestations.policy import Policy
from channel_tools.channel.attestations.sidecar import (
    MAX_SIZE,
    SHA256,
    alias_key,
    read_sidecar,
    target_channel,
)
from channel_tools.channel.stores.store import Store
from channel_tools.channel.transaction.change import Record
from channel_tools.model.errors import AttestationError
from channel_tools.model.package import sha256 as file_sha256
from channel_tools.model.redaction import redact


@dataclass(frozen=True)
class Question:
    """One file to check.

    :param channel: URL that its attestation must name
    :param sidecar: the bundles as they are stored; None: fetched from beside ``url``
    :param url: of the package, as a solver has it
    :param advertised: ``attestations_sha256`` of its record; None where the record has none
    """

    file_name: str
    sha256: str
    channel: str
    sidecar: bytes | None = None
    url: str | None = None
    advertised: str | None = None


def check_store(
    store: Store, records: Mapping[str, Record], url: str, policy: Policy
) -> tuple[list[Outcome], list[str]]:
    """All given packages of a channel, as they are stored: what audit does.

    :param records: by the key of the package
    :param url: the channel's, as attestations name it
    :returns: an outcome for each, by key, and faults of the sidecars that no client would notice
    """
    questions, faults = [], []
    for key, record in sorted(records.items()):
        advertised = record.get("attestations_sha256")
        alias = read_sidecar(store, key)
        sidecar = read_sidecar(store, key, advertised) if advertised else None
        if advertised and alias != sidecar:
            faults.append(f"{alias_key(key)} is not the file that the record names")
        if alias is not None and not advertised:
            faults.append(f"{alias_key(key)} is there, and the record does not name it")
        questions.append(_stored(key, record, sidecar, url))
    return check_all(questions, policy), faults


def check_solved(
    records: Iterable[Mapping[str, Any]], read_from: str, attested_as: str, policy: Policy
) -> tuple[list[Outcome], list[str]]:
    """Packages that a solver chose, before they are installed: those of one channel and its labels.

    :param records: as :func:`channel_tools.client.install.install` returns them
    :param read_from: URL of the channel that the records were read from
    :param attested_as: URL that attestations name: the same, but for a mirror
    :returns: an outcome for each, and the file names from other channels, which nobody has checked
    :raises AttestationError: the check itself is not possible, or no record is from that channel
    """
    base = read_from.rstrip("/") + "/"
    questions, others = [], []
    for record in records:
        url = str(record["url"])
        if not url.startswith(base):
            others.append(unquote(url.rsplit("/", 1)[-1]))
            continue
        key = unquote(url.removeprefix(base))
        questions.append(
            Question(
                file_name=key.rsplit("/", 1)[-1],
                sha256=str(record["sha256"]),
                channel=target_channel(attested_as, key),
                url=url,
                advertised=record.get("attestations_sha256"),
            )
        )
    if others and not questions:
        raise AttestationError(
            "no package is from the channel whose attestations are asked for",
            where=redact(read_from),
            found=", ".join(others[:5]),
            fix="check the address given by --channel",
        )
    return check_all(questions, policy), others


def question_of_file(package: Path, channel: str) -> Question:
    """A package file on disk and the sidecar beside it, ``<file>.sigs``."""
    path = package.with_name(f"{package.name}.sigs")
    sidecar = (path.read_bytes() or None) if path.exists() else None
    return Question(
        file_name=package.name,
        sha256=file_sha256(package),
        channel=channel.rstrip("/"),
        sidecar=sidecar,
        advertised=None if sidecar is None else hashlib.sha256(sidecar).hexdigest(),
    )


def check_all(questions: Sequence[Question], policy: Policy) -> list[Outcome]:
    """An outcome for each question, in order; one child process for all of them.

    :raises AttestationError: the check itself is not possible
    """
    answers: dict[int, Outcome] = {}
    items: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="rocm-channel-sigs-") as scratch:
        for number, question in enumerate(questions):
            found = _before(question)
            if found is None:
                items[number] = _item(question, Path(scratch, str(number)))
            else:
                answers[number] = found
        if items:
            results = _ask(list(items.values()), policy)
            for number, result in zip(items, results, strict=True):
                answers[number] = _outcome(questions[number], result, Path(scratch).as_uri())
    return [answers[number] for number in range(len(questions))]


def _stored(key: str, record: Record, sidecar: bytes | None, url: str) -> Question:
    return Question(
        file_name=key.rsplit("/", 1)[-1],
        sha256=str(record.get("sha256", "")),
        channel=target_channel(url, key),
        sidecar=sidecar if sidecar is not None else b"" if record.get("attestations_sha256") else None,
        advertised=record.get("attestations_sha256"),
    )


def _before(question: Question) -> Outcome | None:
    """What is plain without a look at any signature."""

    def failed(verdict: Verdict, *reasons: str) -> Outcome:
        return Outcome(question.file_name, verdict, question.channel, reasons=reasons)

    if not urlsplit(question.channel).scheme:
        raise AttestationError(
            "a channel without a URL has nothing that an attestation could name",
            where=question.file_name,
            found=question.channel or "none",
            fix="give the channel its URL: `rocm-channel channel init CHANNEL --change --url https://...`",
        )
    advertised = question.advertised
    if advertised is None:
        return failed(Verdict.MISSING)
    if not SHA256.fullmatch(advertised):
        return failed(Verdict.UNAVAILABLE, f"attestations_sha256 is no sha256: {advertised}")
    if not SHA256.fullmatch(question.sha256):
        return failed(Verdict.CHANGED, f"the record has no sha256: {question.sha256 or 'nothing'}")
    if question.sidecar is None:
        return None
    if not question.sidecar:
        return failed(Verdict.UNAVAILABLE, f"{question.file_name}.sigs.{advertised} is not there")
    if hashlib.sha256(question.sidecar).hexdigest() != advertised:
        return failed(Verdict.UNAVAILABLE, f"{question.file_name}.sigs.{advertised} has another sha256")
    if len(question.sidecar) > MAX_SIZE:
        return failed(Verdict.UNAVAILABLE, f"{len(question.sidecar)} bytes are more than clients read")
    return None


def _item(question: Question, folder: Path) -> dict[str, Any]:
    url = question.url
    if question.sidecar is not None:
        subdir = folder / "linux-64"
        subdir.mkdir(parents=True)
        (subdir / f"{question.file_name}.sigs.{question.advertised}").write_bytes(question.sidecar)
        url = (subdir / question.file_name).as_uri()
    return {
        "file_name": question.file_name,
        "sha256": question.sha256,
        "channel": question.channel,
        "url": url,
        "attestations_sha256": question.advertised,
    }


def _ask(items: list[dict[str, Any]], policy: Policy) -> list[dict[str, Any]]:
    payload = {
        "items": items,
        "publishers": [[one.identity, one.issuer] for one in policy.publishers],
        "trusted_root": policy.trusted_root,
    }
    try:
        answer: list[dict[str, Any]] = rattler_process.call("attest", payload)
    except rattler_process.RattlerCallError as error:
        raise AttestationError(
            "attestations cannot be checked",
            found=redact(str(error)),
            fix="check the file that --trusted-root names",
        ) from error
    return answer


def _outcome(question: Question, result: Mapping[str, Any], scratch: str) -> Outcome:
    if "ok" in result:
        return Outcome(question.file_name, Verdict.VERIFIED, **result["ok"])
    reasons = tuple(
        redact(re.sub(re.escape(scratch) + r"/\d+/linux-64/", "", one)) for one in result["reasons"]
    )
    return Outcome(question.file_name, failure(reasons), question.channel, reasons=reasons)

"""What came of checking a file's attestations, in words.

Pass or fail is py-rattler's verdict, with the demand for a channel's name added; its text only decides how a
failure is called here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from channel_tools.model.errors import AttestationError


class Verdict(StrEnum):
    """From good to bad; of several attestations the best one that failed gives the name."""

    VERIFIED = "verified"
    WRONG_SIGNER = "wrong signer"
    OTHER_CHANNEL = "other channel"
    OTHER_FILE = "other file"
    CHANGED = "changed file"
    UNTRUSTED = "untrusted"
    MALFORMED = "malformed"
    UNAVAILABLE = "unavailable"
    MISSING = "missing"


_NAMES: tuple[tuple[re.Pattern[str], Verdict], ...] = (
    (re.compile(r"does not match the trusted publisher"), Verdict.WRONG_SIGNER),
    (re.compile(r"targets channel|names no channel"), Verdict.OTHER_CHANNEL),
    (re.compile(r"attestation subject is"), Verdict.OTHER_FILE),
    (re.compile(r"artifact mismatch|artifact hash"), Verdict.CHANGED),
    (
        re.compile(
            r"malformed|not a valid Sigstore bundle|not an in-toto|not a DSSE|predicate|exactly one subject"
            r"|statement type|cannot be read"
        ),
        Verdict.MALFORMED,
    ),
    (
        re.compile(r"^(failed to (fetch|read)\b.*sidecar|(content-addressed )?attestation sidecar)"),
        Verdict.UNAVAILABLE,
    ),
)

_WHAT = {
    Verdict.WRONG_SIGNER: "was signed by somebody who may not publish here",
    Verdict.OTHER_CHANNEL: "was attested for another channel",
    Verdict.OTHER_FILE: "has the attestation of another file",
    Verdict.CHANGED: "is not the file that was attested: its content differs",
    Verdict.UNTRUSTED: "has an attestation that the trusted root does not vouch for",
    Verdict.MALFORMED: "has an attestation that cannot be read",
    Verdict.UNAVAILABLE: "has an attestation that its channel does not give out as announced",
    Verdict.MISSING: "has no attestation",
}

_FIX = {
    Verdict.WRONG_SIGNER: "if that signer may publish, name it with --identity and --issuer",
    Verdict.OTHER_CHANNEL: "promote the file to this channel, which attests it anew; for a mirror, name the "
    "channel that it mirrors",
    Verdict.OTHER_FILE: "do not use it; `rocm-channel audit` shows what else differs",
    Verdict.CHANGED: "do not use it; `rocm-channel audit` shows what else differs",
    Verdict.UNTRUSTED: "check that --trusted-root is the file of the instance that the publisher signs with",
    Verdict.MALFORMED: "do not use it; the publisher must publish it anew, with the build number raised",
    Verdict.UNAVAILABLE: "ask the operator to run `rocm-channel audit` on the channel",
    Verdict.MISSING: "ask for a build that its publisher signed, or do without: --attestations warn",
}


@dataclass(frozen=True)
class Outcome:
    """One file. ``signed_at`` is ISO 8601; ``reasons`` has why each attestation failed."""

    file: str
    verdict: Verdict
    channel: str
    identity: str | None = None
    issuer: str | None = None
    signed_at: str | None = None
    log: str | None = None
    log_index: int | None = None
    reasons: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        return self.verdict is Verdict.VERIFIED

    @property
    def text(self) -> str:
        """One line for people."""
        if self.verified:
            return f"{self.file}: signed by {self.identity} ({self.issuer}) at {self.signed_at}"
        return f"{self.file}: {_WHAT[self.verdict]}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict.value, "reasons": list(self.reasons)}

    def error(self) -> AttestationError:
        """The error of a file that must not be used."""
        return AttestationError(
            _WHAT[self.verdict],
            where=self.file,
            found="; ".join(self.reasons) or "nothing",
            wanted=f"an attestation for {self.channel} by a publisher that the policy names",
            fix=_FIX[self.verdict],
        )


def failure(reasons: Sequence[str]) -> Verdict:
    """The name of a failure that has these reasons."""
    verdicts = [
        next((v for sign, v in _NAMES if sign.search(reason)), Verdict.UNTRUSTED) for reason in reasons
    ]
    order = list(Verdict)
    return min(verdicts, key=order.index, default=Verdict.MISSING)


def demand(outcomes: Sequence[Outcome]) -> None:
    """Let nothing pass that is not verified.

    :raises AttestationError: names every file that is not
    """
    failed = [outcome for outcome in outcomes if not outcome.verified]
    if len(failed) == 1:
        raise failed[0].error()
    if failed:
        lines = [f"{one.file}: {one.verdict.value} ({'; '.join(one.reasons) or 'none'})" for one in failed]
        raise AttestationError(
            f"{len(failed)} of {len(outcomes)} files are not attested as demanded",
            where=failed[0].channel,
            found="\n         ".join(lines),
            fix=_FIX[failed[0].verdict],
        )

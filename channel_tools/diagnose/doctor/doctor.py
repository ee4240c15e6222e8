"""The doctor: runs the checks on a host and makes a report of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from channel_tools.diagnose.doctor.checks import CHECKS, Check, Context, Outcome, Status
from channel_tools.diagnose.doctor.data import check_texts, doctor_data
from channel_tools.diagnose.doctor.environments import conda_base
from channel_tools.diagnose.doctor.host_root import HostRoot
from channel_tools.model.errors import DoctorError, DoctorWarningError
from channel_tools.verify.source import printable

SCOPES = ("build", "use")


@dataclass(frozen=True)
class Result:
    """A check and what it found."""

    check: Check
    outcome: Outcome

    @property
    def status(self) -> Status:
        return self.outcome.status

    @property
    def scope(self) -> str:
        return self.check.about.scope

    @property
    def wanted(self) -> str:
        return self.outcome.wanted or self.check.about.wanted

    def to_json(self) -> dict[str, Any]:
        """``fix`` and ``sources`` may be empty."""
        return {
            "id": self.check.id,
            "scope": self.scope,
            "title": self.check.about.title,
            "status": self.status.word,
            "found": self.outcome.found,
            "wanted": self.wanted,
            "why": self.check.about.why,
            "fix": self.outcome.fix,
            "sources": list(self.check.about.sources),
        }


def all_checks() -> dict[str, Check]:
    """Every check by its id, in the order of the report, which is that of their texts."""
    from channel_tools.diagnose.doctor import (  # noqa: F401  # each enters its checks
        checks_compilers,
        checks_driver,
        checks_environment,
        checks_gpus,
        checks_machine,
        checks_rocm,
        checks_tools,
        checks_tuning,
    )

    return {identity: CHECKS[identity] for identity in check_texts()}


def examine(host: HostRoot, scopes: Iterable[str] = SCOPES, prefix: str | None = None) -> list[Result]:
    """Run the checks of some scopes.

    :param prefix: the environment that is judged; the active one when not given
    """
    wanted = set(scopes)
    context = Context(host, prefix or active_prefix(host), doctor_data())
    return [Result(one, run(one, context)) for one in all_checks().values() if one.about.scope in wanted]


def run(one: Check, context: Context) -> Outcome:
    """Run one check; one that fails by itself counts as skipped and says why.

    Names and values of the host are made fit for a terminal.
    """
    try:
        found = one.run(context)
    except Exception as failure:
        found = Outcome(Status.SKIPPED, f"the check failed: {type(failure).__name__}: {failure}")
    return Outcome(found.status, printable(found.found), printable(found.fix), printable(found.wanted))


def active_prefix(host: HostRoot) -> str | None:
    """The environment that is active in the shell; conda's base is none to install into."""
    for name in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        prefix = host.variable(name)
        if prefix and prefix.startswith("/") and host.is_dir(prefix):
            real, base = host.real(prefix), conda_base(host)
            if name == "CONDA_PREFIX" and base and real == host.real(base):
                continue
            return prefix.rstrip("/") or None
    return None


def to_json(results: Sequence[Result]) -> dict[str, Any]:
    """The whole report."""
    worst = max((result.status for result in results), default=Status.OK)
    counts = {status.word: 0 for status in Status}
    for result in results:
        counts[result.status.word] += 1
    return {
        "version": 1,
        "status": worst.word,
        "counts": counts,
        "checks": [result.to_json() for result in results],
    }


def failure(results: Sequence[Result], *, strict: bool) -> DoctorError | None:
    """The error that the command ends with: for errors, and with ``strict`` for warnings."""
    for status, kind in ((Status.ERROR, DoctorError), (Status.WARNING, DoctorWarningError)):
        found = [result.check.id for result in results if result.status == status]
        if found and (strict or status == Status.ERROR):
            word = status.word if len(found) == 1 else f"{status.word}s"
            return kind(f"{len(found)} {word}: {', '.join(found)}", fix="see the lines 'fix' above")
    return None

"""The errors that end a command.

Each class has an exit code of its own, so that scripts can tell them apart, and each message says what
was found, where, and what to do next. Exit code 2 is the command line's own (wrong usage); 60 to 79 are
the build guards' (``build_scripts/lib``), passed through unchanged.
"""

from __future__ import annotations

from pathlib import Path


class ChannelToolsError(Exception):
    """Base of every error that a user sees.

    :param what: one sentence: what is wrong
    :param where: file, ``file:line`` or URL that it concerns
    :param found: what was found there
    :param wanted: what would be right
    :param fix: what to do next, as a command where there is one
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        where: str | Path | None = None,
        found: str | None = None,
        wanted: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = None if where is None else str(where)
        self.found = found
        self.wanted = wanted
        self.fix = fix

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        details = [
            f"  {label}: {_below(text)}"
            for label, text in (("found", self.found), ("wanted", self.wanted), ("fix", self.fix))
            if text
        ]
        return "\n".join([head, *details])


def _below(text: str) -> str:
    """Text whose further lines stand below its label, as far in as they came or four columns."""
    first, *rest = text.splitlines() or [""]
    if not all(line.startswith("    ") for line in rest):
        rest = [f"    {line}" for line in rest]
    return "\n".join([first, *rest])


class MatrixError(ChannelToolsError):
    """A variant file that an engine would misread, or that contradicts itself."""

    exit_code = 10


class RecipeError(ChannelToolsError):
    """A recipe that cannot be read, rendered, or turned into ``meta.yaml``."""

    exit_code = 11


class OutOfSyncError(ChannelToolsError):
    """A generated file that differs from what its source gives now."""

    exit_code = 12


class ToolMissingError(ChannelToolsError):
    """A program or package of this host that is needed and not there."""

    exit_code = 13


class SourceError(ChannelToolsError):
    """A source that no place gives, or that only comes with another sha256 than the recipe's."""

    exit_code = 14


class PatchError(ChannelToolsError):
    """A patch that does not fit the source that it is for, or that is no unified diff."""

    exit_code = 15


class RequirementsError(RecipeError):
    """A release whose requirements are not what recipe and data file say, or cannot be read."""

    exit_code = 16


class BuildFailedError(ChannelToolsError):
    """A build that an engine ended with a failure."""

    exit_code = 20


class DependencyError(ChannelToolsError):
    """An environment that no combination of packages on the given channels satisfies."""

    exit_code = 21


class PreflightError(ChannelToolsError):
    """A build that would compile something else than its variant says, or that would not configure."""

    exit_code = 22


class VerifyError(ChannelToolsError):
    """A binary whose GPU code is not what its package declares."""

    exit_code = 30


class DamagedFileError(ChannelToolsError):
    """A file that ends early or contradicts its own headers."""

    exit_code = 31


class ChannelError(ChannelToolsError):
    """A channel that must not, or cannot, take a change."""

    exit_code = 40


class StorageError(ChannelToolsError):
    """A folder that cannot be written: read-only, full, or not ours."""

    exit_code = 41


class ConflictError(ChannelError):
    """Somebody else changed the channel meanwhile, or holds its lease."""

    exit_code = 42


class AttestationError(ChannelToolsError):
    """An attestation that is missing, wrong, or cannot be made."""

    exit_code = 43


class ReleaseRefusedError(ChannelError):
    """A release that would break the channel's promises to its consumers."""

    exit_code = 44


class AuditError(ChannelError):
    """A channel whose files, indexes, labels and manifests do not agree."""

    exit_code = 45


class AccessError(StorageError):
    """A store that wants credentials, or other ones."""

    exit_code = 46


class ArchRefusedError(ChannelToolsError):
    """No package of the channel is built for the GPU of this host."""

    exit_code = 50


class RocmRefusedError(ChannelToolsError):
    """No package of the channel is built for the ROCm release of this host."""

    exit_code = 51


class LockError(ChannelToolsError):
    """A pinned file that no longer holds, or that cannot be read as one."""

    exit_code = 52


class EnvironmentCheckError(ChannelToolsError):
    """An installed environment that is damaged, or is none."""

    exit_code = 53


class GuardError(BuildFailedError):
    """A build guard that stopped the build; its exit code is the guard's own (60 to 79)."""

    def __init__(self, what: str, *, code: int, where: str | Path | None = None) -> None:
        super().__init__(what, where=where)
        self.exit_code = code


class UnexplainedError(ChannelToolsError):
    """A log in which no known cause was found, where one was asked for."""

    exit_code = 82


class RuleError(ChannelToolsError):
    """A rule file of ``explain`` that cannot be used."""

    exit_code = 84


class DoctorError(ChannelToolsError):
    """Something of this host that a check of the doctor calls an error."""

    exit_code = 80


class DoctorWarningError(DoctorError):
    """Warnings of the doctor, where it was told to be strict."""

    exit_code = 81


class SmokeError(ChannelToolsError):
    """A smoke run with a step that failed, or with a GPU that did not work."""

    exit_code = 83

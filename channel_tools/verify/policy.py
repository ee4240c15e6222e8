"""What a package must be: the model of ``policies/*.toml``, and the policy that applies to one package.

The fields below are the keys of the files; ``policies/policy-schema.json`` and a table of docs/verify.md are
made from them.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Final

from channel_tools.verify.catalogue import CATALOGUE
from channel_tools.verify.package_info import OLDEST_GCC, PackageInfo
from channel_tools.verify.targets import Target, is_known_target
from channel_tools.verify.version_range import VersionRange

FORMAT_VERSION: Final = 1
POLICIES: Final = Path(__file__).parent / "policies"
FROM_METADATA: Final = "the package's metadata"

_STRICT: Final = {"extra": "forbid", "strict": True}
_NOT_ACCEPTABLE: Final = ("damage", "unsafe-entry")
_MODULE_NAME = re.compile(r"[A-Za-z0-9_+-]+")


class BadValueError(ValueError):
    """A value that has the right type and means nothing. ``key`` is the field that holds it."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


def _key(description: str, **schema: Any) -> dict[str, Any]:
    return {"description": description, **schema}


@dataclass(frozen=True)
class Budget:
    """Sizes in MiB."""

    __pydantic_config__: ClassVar[Any] = _STRICT

    package_mib: int | None = field(default=None, metadata=_key("of the package file", minimum=1))
    installed_mib: int | None = field(default=None, metadata=_key("of all files unpacked", minimum=1))
    file_mib: int | None = field(default=None, metadata=_key("of each file unpacked", minimum=1))

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None and value < 1:
                raise BadValueError(item.name, f"{value} is no size: wanted 1 MiB or more")


@dataclass(frozen=True)
class ExtraTargets:
    """Code that some files hold beyond the package's own targets."""

    __pydantic_config__: ClassVar[Any] = _STRICT

    files: tuple[str, ...] = field(metadata=_key("patterns of paths, such as `lib/libhsa-runtime64.so*`"))
    reason: str = field(metadata=_key("why this is right; shown in the report"))
    targets: tuple[str, ...] = field(default=("*",), metadata=_key("patterns of the targets (default: any)"))

    def __post_init__(self) -> None:
        _check_patterns("files", self.files)
        _check_patterns("targets", self.targets)
        _check_reason(self.reason)

    def covers(self, path: str, target: str) -> bool:
        return _matches(path, self.files) and _matches(target, self.targets)


@dataclass(frozen=True)
class Modules:
    """Extension modules and libraries that some versions of the package must hold."""

    __pydantic_config__: ClassVar[Any] = _STRICT

    versions: str = field(metadata=_key("range of package versions, such as `>=0.26,<0.34`"))
    folder: str = field(metadata=_key("the folder that holds them, from its end: `vllm`, `torch/lib`"))
    names: tuple[str, ...] = field(metadata=_key("file names up to the first dot: `_C` is `_C.abi3.so`, too"))
    with_code: tuple[str, ...] = field(
        default=(), metadata=_key("those of the names that must hold GPU code")
    )

    def __post_init__(self) -> None:
        try:
            VersionRange.parse(self.versions)
        except ValueError as error:
            raise BadValueError("versions", str(error)) from error
        if not self.names:
            raise BadValueError("names", "the list is empty")
        for name in self.names:
            if not _MODULE_NAME.fullmatch(name):
                raise BadValueError("names", f"{name!r} is no name of a module: wanted such as '_C'")
        for name in self.with_code:
            if name not in self.names:
                raise BadValueError("with_code", f"{name!r} is not in names")
        if not self.folder.strip("/"):
            raise BadValueError("folder", "the name is empty")

    def applies_to(self, version: str) -> bool:
        return version in VersionRange.parse(self.versions)

    def find(self, name: str, paths: Iterable[str]) -> list[str]:
        """The paths that are this module."""
        folder = re.escape(self.folder.strip("/"))
        wanted = re.compile(rf"(?:.*/)?{folder}/{re.escape(name)}(?:\.[A-Za-z0-9_-]+)*\.so(?:\.[0-9.]+)?")
        return [path for path in paths if wanted.fullmatch(path)]


@dataclass(frozen=True)
class Accepted:
    """Faults that are known and taken. Damage never is."""

    __pydantic_config__: ClassVar[Any] = _STRICT

    rules: tuple[str, ...] = field(metadata=_key("ids of the rules, as reports and docs/verify.md name them"))
    files: tuple[str, ...] = field(
        metadata=_key("patterns of paths; `*` for faults of the package as a whole")
    )
    reason: str = field(metadata=_key("why this is right; shown in the report"))

    def __post_init__(self) -> None:
        for rule in self.rules:
            if rule in _NOT_ACCEPTABLE or rule not in CATALOGUE:
                raise BadValueError(
                    "rules",
                    f"{rule!r} is no rule that can be accepted: wanted one of "
                    f"{', '.join(sorted(set(CATALOGUE) - set(_NOT_ACCEPTABLE)))}",
                )
        _check_patterns("files", self.files)
        _check_reason(self.reason)

    def covers(self, path: str, rule: str) -> bool:
        return rule in self.rules and _matches(path, self.files)


@dataclass(frozen=True)
class Policy:
    """What is wanted of a package. What a file leaves out comes from the package's own metadata."""

    __pydantic_config__: ClassVar[Any] = _STRICT

    version: int = field(default=FORMAT_VERSION, metadata=_key("of this format: 1", const=FORMAT_VERSION))
    package: str | None = field(
        default=None, metadata=_key("the package that this is for (default: any); another one is an error")
    )
    targets: tuple[str, ...] | None = field(
        default=None,
        metadata=_key("the GPU targets that must be there, and no others (default: as the package declares)"),
    )
    code: bool | None = field(
        default=None,
        metadata=_key(
            "true: GPU code must be there (default where the package lists gfx_targets); false: none"
        ),
    )
    gcc: int | None = field(
        default=None,
        metadata=_key(
            "newest major release of GCC in the binaries (default: the variant's pin)", minimum=OLDEST_GCC
        ),
    )
    compilers: tuple[str, ...] = field(
        default=(), metadata=_key("regular expressions of other entries of `.comment` that are right")
    )
    libraries: tuple[str, ...] = field(
        default=(), metadata=_key("patterns of needed libraries that are found at run time in another way")
    )
    run_paths: tuple[str, ...] = field(
        default=(), metadata=_key("patterns of RPATH and RUNPATH entries that are right as they are written")
    )
    forbidden_flags: tuple[str, ...] = field(
        default=(), metadata=_key("compiler flags; of -O levels the last one of a command counts")
    )
    budget: Budget = field(default=Budget(), metadata=_key("how large things may be"))
    extra_targets: tuple[ExtraTargets, ...] = field(
        default=(), metadata=_key("files that rightly hold code for more targets")
    )
    modules: tuple[Modules, ...] = field(
        default=(), metadata=_key("what each version must hold; a version in no range is a fault")
    )
    accepted: tuple[Accepted, ...] = field(default=(), metadata=_key("faults that are known and taken"))

    def __post_init__(self) -> None:
        if self.version != FORMAT_VERSION:
            raise BadValueError("version", f"{self.version} is not known: wanted {FORMAT_VERSION}")
        if self.targets is not None and not self.targets:
            raise BadValueError("targets", "the list is empty: leave it out, or name targets such as gfx942")
        for target in self.targets or ():
            try:
                Target.parse(target)
            except ValueError as error:
                raise BadValueError("targets", str(error)) from error
        if self.gcc is not None and self.gcc < OLDEST_GCC:
            raise BadValueError("gcc", f"{self.gcc} is no major release of GCC: wanted such as 11")
        for pattern in self.compilers:
            try:
                re.compile(pattern)
            except re.error as error:
                raise BadValueError("compilers", f"{pattern!r} is no regular expression: {error}") from error
        _check_patterns("libraries", self.libraries, may_be_empty=True)
        _check_patterns("run_paths", self.run_paths, may_be_empty=True)
        for flag in self.forbidden_flags:
            if not re.fullmatch(r"-\S+", flag):
                raise BadValueError("forbidden_flags", f"{flag!r} is no flag: wanted such as '-O3'")

    def modules_of(self, version: str) -> tuple[Modules, ...]:
        return tuple(entry for entry in self.modules if entry.applies_to(version))

    def digest(self) -> str:
        """SHA-256 over all keys in a form that does not depend on how the files spell them."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class AppliedPolicy:
    """A policy with what it was made of, for the report: ``sources`` in order, the last one counts most."""

    policy: Policy
    sources: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        rules = {key: value for key, value in asdict(self.policy).items() if value not in (None, (), [])}
        return {"sources": list(self.sources), "digest": self.policy.digest(), "rules": rules}


def policy_of(package: PackageInfo) -> Policy:
    """The default policy: what the package says of itself, and the compiler that its variant pins."""
    known = all(is_known_target(target) for target in package.declared)
    return Policy(
        targets=package.declared or None if known else None,
        code=True if package.promises_code else None,
        gcc=package.gcc_pin,
    )


def named_policy(package: str) -> Path | None:
    """The file of ``policies/`` for a package; None where it has none."""
    path = POLICIES / f"{package}.toml"
    return path if re.fullmatch(r"[a-z0-9._-]+", package) and path.is_file() else None


def merge(default: Policy, stated: Policy) -> Policy:
    """What ``stated`` leaves out comes from ``default``."""
    left_out = {
        key: getattr(default, key) for key in ("targets", "code", "gcc") if getattr(stated, key) is None
    }
    return replace(stated, **left_out)


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)


def _check_patterns(key: str, patterns: tuple[str, ...], *, may_be_empty: bool = False) -> None:
    if not patterns and not may_be_empty:
        raise BadValueError(key, "the list is empty")
    if not all(patterns):
        raise BadValueError(key, "an empty pattern matches nothing")


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise BadValueError("reason", "it is empty: say why this is right")

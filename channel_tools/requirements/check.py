"""Every requirement of a release against a recipe: mapped, left out with a reason, or a difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from channel_tools.model.errors import RequirementsError
from channel_tools.requirements.data_file import ROLES, DataFile, OtherRange, Role
from channel_tools.requirements.lists import Asked
from channel_tools.requirements.ranges import compare_ranges
from channel_tools.requirements.rendered import Rendered, Spec

MAPPED, LEFT_OUT, DIFFERS = "mapped", "left out", "differs"


@dataclass(frozen=True)
class Row:
    """What became of one requirement. ``takes`` is the recipe's range, in ``section``."""

    role: Role
    asked: Asked
    verdict: str
    conda: str = ""
    section: str = ""
    takes: str = ""
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "name": self.asked.name,
            "extras": list(self.asked.extras),
            "asks": self.asked.range,
            "where": list(self.asked.where),
            "verdict": self.verdict,
            "conda": self.conda,
            "section": self.section,
            "takes": self.takes,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Difference:
    """One thing that is not as recipe and data file say.

    ``kind``: ``new`` (nothing in the recipe), ``range``, ``extra``, ``address`` (a requirement by URL),
    ``contradiction`` (left out, and in the recipe), ``dropped`` (in the recipe, and asked for by nothing) or
    ``stale`` (an entry of the data file that fits nothing).
    """

    kind: str
    name: str
    what: str
    where: str
    found: str
    wanted: str
    fix: str

    def to_json(self) -> dict[str, str]:
        return dict(vars(self))


@dataclass(frozen=True)
class Checked:
    """All rows and differences of one output of a recipe."""

    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]


def check_output(asked: Mapping[Role, Sequence[Asked]], recipe: Rendered, data: DataFile) -> Checked:
    """Compare the requirements of a release, by role, with one output of a recipe of that version."""
    check = _Check(recipe, data)
    for role in ROLES:
        for one in asked[role]:
            check.requirement(role, one)
    check.what_nothing_asks_for()
    check.data_that_fits_nothing()
    return Checked(tuple(check.rows), tuple(check.differences))


@dataclass
class _Check:
    recipe: Rendered
    data: DataFile
    rows: list[Row] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    used: set[tuple[str, int, str]] = field(default_factory=set)
    met: set[Spec] = field(default_factory=set)

    def requirement(self, role: Role, asked: Asked) -> None:
        if asked.address:
            self._differs(role, asked, "address", "is asked for by its address", asked.address)
            return
        conda = self.data.names.get(asked.name, asked.name)
        at_run = role == "build" and self._use("at_run", asked.name) is not None
        specs = self._specs("run" if at_run else role, conda)
        reason = self._use("left_out", asked.name, role)
        if reason is not None:
            if specs:
                what = "is left out by requirements.toml, and in the recipe"
                self._differs(role, asked, "contradiction", what, _spell(specs))
            else:
                self.rows.append(Row(role, asked, LEFT_OUT, reason=reason))
            return
        if not specs:
            self._differs(role, asked, "new", "is in no requirement of the recipe", "nothing")
            return
        self.met |= set(specs)
        missing = [extra for extra in asked.extras if not self._extra(asked.name, extra)]
        if missing:
            what = f"asks for the extra {', '.join(missing)}"
            self._differs(role, asked, "extra", what, "no word about it in requirements.toml")
            return
        takes = ",".join(spec.range for spec in specs if spec.range)
        reason = self._other_range(asked, takes)
        if reason is None and not self._same_range(role, asked, specs, takes):
            return
        first = specs[0]
        self.rows.append(Row(role, asked, MAPPED, first.name, first.section, takes, reason or ""))

    def what_nothing_asks_for(self) -> None:
        for role in ROLES:
            for spec in self.recipe.of(role):
                if self._use("added", spec.name, role) is None and spec not in self.met:
                    self.differences.append(
                        Difference(
                            "dropped",
                            spec.name,
                            "is in the recipe, and no list asks for it",
                            f"recipe.yaml, {spec.section}",
                            f"{spec.name} {spec.range}".strip(),
                            "a requirement of this release",
                            "take it out of recipe.yaml, or say under [[added]] of requirements.toml why not",
                        )
                    )

    def data_that_fits_nothing(self) -> None:
        for table in ("left_out", "other_range", "at_run", "added"):
            for index, rule in enumerate(getattr(self.data, table)):
                unused = [name for name in rule.names if (table, index, name) not in self.used]
                self._stale(table, unused if rule.holds_for(self.recipe.version) else [], rule.versions)
        for index, extras in enumerate(self.data.extras):
            unused = [e for e in extras.extras if ("extras", index, e) not in self.used]
            named = [f"{extras.name}[{extra}]" for extra in unused]
            self._stale("extras", named if extras.holds_for(self.recipe.version) else [], extras.versions)

    def _stale(self, table: str, names: Iterable[str], versions: str) -> None:
        for name in names:
            self.differences.append(
                Difference(
                    "stale",
                    name,
                    f"[[{table}]] has an entry for it that fits nothing in this release",
                    "requirements.toml",
                    f'versions = "{versions}"',
                    f"an entry that {self.recipe.version} needs",
                    "take it out, or give it the versions that it holds for",
                )
            )

    def _use(self, table: str, name: str, role: Role | None = None) -> str | None:
        """The reason of the entry for that name, which counts as used from now on."""
        for index, rule in enumerate(getattr(self.data, table)):
            right_role = getattr(rule, "role", None) in (None, role)
            if name in rule.names and right_role and rule.holds_for(self.recipe.version):
                self.used.add((table, index, name))
                return str(rule.reason)
        return None

    def _extra(self, name: str, extra: str) -> bool:
        for index, rule in enumerate(self.data.extras):
            if rule.name == name and extra in rule.extras and rule.holds_for(self.recipe.version):
                self.used.add(("extras", index, extra))
                return True
        return False

    def _other_range(self, asked: Asked, takes: str) -> str | None:
        for index, rule in enumerate(self.data.other_range):
            if asked.name in rule.names and _is(rule, asked.range, takes, self.recipe.version):
                self.used.add(("other_range", index, asked.name))
                return rule.reason
        return None

    def _same_range(self, role: Role, asked: Asked, specs: Sequence[Spec], takes: str) -> bool:
        try:
            difference = compare_ranges(asked.range, takes)
        except ValueError as error:
            raise RequirementsError(
                "a range cannot be read", where=", ".join(asked.where), found=str(error)
            ) from error
        if difference is None:
            return True
        self._differs(role, asked, "range", f"has another range: {difference.words}", _spell(specs))
        return False

    def _specs(self, role: Role, conda: str) -> tuple[Spec, ...]:
        from packaging.utils import canonicalize_name

        wanted = canonicalize_name(conda)
        return tuple(spec for spec in self.recipe.of(role) if canonicalize_name(spec.name) == wanted)

    def _differs(self, role: Role, asked: Asked, kind: str, what: str, found: str) -> None:
        extras = f"[{','.join(asked.extras)}]" if asked.extras else ""
        fixes = {
            "new": "add it to recipe.yaml, or say under [[left_out]] of requirements.toml why not",
            "range": "take upstream's range over, or say under [[other_range]] of requirements.toml why not",
            "extra": "add what it brings to recipe.yaml, and say so under [[extras]] of requirements.toml",
            "address": "package it, or say under [[left_out]] of requirements.toml why it is not needed",
            "contradiction": "take one of the two out",
        }
        self.rows.append(Row(role, asked, DIFFERS))
        self.differences.append(
            Difference(
                kind,
                asked.name,
                what,
                ", ".join(asked.where),
                found,
                f"{asked.name}{extras} {asked.range}".strip() + f" ({role})",
                fixes[kind],
            )
        )


def _is(rule: OtherRange, asks: str, takes: str, version: str) -> bool:
    from packaging.specifiers import SpecifierSet

    same = SpecifierSet(rule.asks) == SpecifierSet(asks) and rule.takes == takes
    return same and rule.holds_for(version)


def _spell(specs: Sequence[Spec]) -> str:
    return ", ".join(f"{spec.name} {spec.range}".strip() + f" ({spec.section})" for spec in specs)

"""Names that conda-forge has: what no package of ours may be called, and what may be taken as provided.

With strict channel priority the first channel that has a name is the only one that is asked for it: a
package of ours called ``numpy`` would hide every build of conda-forge's.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from channel_tools.channel.publishing.checks.reasons import Candidate, Reason
from channel_tools.model.errors import ChannelError

DATA = Path(__file__).with_name("conda_forge.toml")


class CondaForge(BaseModel):
    """``names`` by group; ``aliases`` has the build string (a regular expression) that each of ours has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int
    virtual: frozenset[str]
    names: Mapping[str, tuple[str, ...]]
    aliases: Mapping[str, str]

    @field_validator("aliases")
    @classmethod
    def _patterns(cls, aliases: Mapping[str, str]) -> Mapping[str, str]:
        for pattern in aliases.values():
            re.compile(pattern)
        return aliases

    def has(self, name: str) -> bool:
        return any(name in group for group in self.names.values())


@cache
def conda_forge(path: Path = DATA) -> CondaForge:
    """The names that are known.

    :raises ChannelError: the file cannot be read
    """
    try:
        return CondaForge.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, re.error, ValidationError) as error:
        raise ChannelError("is no list of names of this format", where=path, found=str(error)) from error


def shadowing(candidate: Candidate) -> Iterator[Reason]:
    """A package with a name of conda-forge's, other than our aliases with their own build strings."""
    known = conda_forge()
    for build in candidate.builds:
        pattern = known.aliases.get(build.name)
        if pattern is not None:
            if not re.fullmatch(pattern, build.build):
                yield Reason(
                    "shadow",
                    build.where,
                    f"has the name of conda-forge's {build.name}, but not the build string of our alias",
                    found=build.build,
                    wanted=f"a build string that matches {pattern}",
                    fix=f"build it from recipes/{build.name}",
                )
        elif known.has(build.name) or candidate.provided(build.name):
            yield Reason(
                "shadow",
                build.where,
                f"has the name {build.name}, and would hide every build that conda-forge has of it",
                fix=f"give it a name of its own, such as {build.name}-rocm",
            )

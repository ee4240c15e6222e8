"""Reading ``policies/*.toml``: an unknown key, a wrong type or a bad value is an error with file and line."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from channel_tools.model.errors import VerifyError
from channel_tools.verify.policy import Accepted, BadValueError, Budget, ExtraTargets, Modules, Policy

_HEADER = re.compile(r"\s*\[{1,2}\s*([A-Za-z0-9_.\s\"'-]+?)\s*\]{1,2}\s*(?:#.*)?")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")
_TABLES: Final = {"budget": Budget, "extra_targets": ExtraTargets, "modules": Modules, "accepted": Accepted}


class PolicyError(VerifyError):
    """A policy file that cannot be used."""

    exit_code = 32


def read_policy(path: Path) -> Policy:
    """Read and check one policy file.

    :raises PolicyError: no TOML, or not as the schema says
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
        raw = json.dumps(data)
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError("the policy cannot be read", where=path, found=str(error)) from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = f"{path}:{line[1]}" if line else str(path)
        raise PolicyError("the policy is no TOML", where=where, found=str(error)) from error
    except TypeError as error:  # dates and times, which no key takes
        raise PolicyError("the policy holds a date or time", where=path, found=str(error)) from error
    return _validate(path, text, raw)


def policy_schema() -> dict[str, Any]:
    """The JSON schema of policy files, as ``policies/policy-schema.json`` holds it."""
    from pydantic import TypeAdapter

    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **TypeAdapter(Policy).json_schema()}


def policy_keys() -> list[tuple[str, str]]:
    """Every key with its description, those of tables as ``table.key``: the table of ``docs/verify.md``."""
    keys: list[tuple[str, str]] = []
    for item in fields(Policy):
        keys.append((item.name, item.metadata["description"]))
        if item.name in _TABLES:
            table: Any = _TABLES[item.name]
            keys += [(f"{item.name}.{inner.name}", inner.metadata["description"]) for inner in fields(table)]
    return keys


def _validate(path: Path, text: str, raw: str) -> Policy:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(Policy).validate_json(raw)
    except ValidationError as invalid:
        error = invalid.errors(include_url=False)[0]
        place: list[str | int] = list(error["loc"])
        cause = error.get("ctx", {}).get("error")
        if isinstance(cause, BadValueError):
            place.append(cause.key)
        found = error["input"]
        key = _spell(place)
        line = _line_of(text, place)
        where = f"{path}:{line}" if line else f"{path}: {key}"
        if error["type"] == "unexpected_keyword_argument":
            known = _known_keys(place)
            near = difflib.get_close_matches(str(place[-1]), known, 1)
            raise PolicyError(
                f"unknown key {key}",
                where=where,
                wanted=f"one of {', '.join(known)}",
                fix=f"write {near[0]}" if near else "remove it",
            ) from None
        if error["type"] == "missing":
            raise PolicyError(f"the key {key} is missing", where=where, fix="add it") from None
        if isinstance(cause, BadValueError):
            raise PolicyError(f"{key}: {cause}", where=where) from None
        raise PolicyError(
            f"{key} has the wrong type",
            where=where,
            found=json.dumps(found)[:200],
            wanted=error["msg"].removeprefix("Input should be "),
        ) from None


def _spell(place: list[str | int]) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _known_keys(place: list[str | int]) -> list[str]:
    table: Any = _TABLES.get(str(place[0]), Policy) if len(place) > 1 else Policy
    return [item.name for item in fields(table)]


def _line_of(text: str, place: list[str | int]) -> int | None:
    """Line of a key, of the table that lacks it, or of the list that an item is in."""
    table: list[str | int] = []
    counts: dict[str, int] = {}
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.fullmatch(line)
        assignment = _ASSIGNMENT.match(line)
        if header:
            name = header[1].strip("\"' ")
            table = [name]
            if line.lstrip().startswith("[["):
                counts[name] = counts.get(name, -1) + 1
                table = [name, counts[name]]
            here = table
        elif assignment:
            here = [*table, assignment[1]]
        else:
            continue
        if here == place[: len(here)] and (best is None or len(here) > best[0]):
            best = (len(here), number)
    return best[1] if best else None

"""The CI recipes: valid for their systems, safe, and their commands do what they say on this machine.

The scripts of the publishing jobs are taken out of both files and run as they stand, in bash, against an S3
service; the build job's command is dry-run, and tiny packages take the place of what it would build.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from channel_tools.channel.stores.opening import open_store
from tests.integration.helpers import rocm_channel
from tests.integration.s3 import S3Server, s3_server  # noqa: F401
from tests.integration.tiny_packages import release

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github" / "workflows" / "publish.yml"
GITLAB = ROOT / ".gitlab-ci.yml"
PINNED = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+(\.\d+)+")


class _Github(yaml.SafeLoader):
    """YAML as GitHub reads it: ``on`` is a word, not true."""


_Github.yaml_implicit_resolvers = {
    first: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:bool"]
    for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Github.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"true|false"), list("tf"))


def github() -> dict[str, Any]:
    data: dict[str, Any] = yaml.load(GITHUB.read_text(), Loader=_Github)
    return data


def gitlab() -> dict[str, Any]:
    """The jobs with what they extend merged in, as GitLab does it."""
    data: dict[str, Any] = yaml.safe_load(GITLAB.read_text())
    for name, job in data.items():
        if isinstance(job, dict) and "extends" in job:
            base = data[job["extends"]]
            variables = {**base.get("variables", {}), **job.get("variables", {})}
            data[name] = {**base, **job, "variables": variables}
    return data


def strings(data: object) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield str(key)
            yield from strings(value)
    elif isinstance(data, list):
        for value in data:
            yield from strings(value)
    else:
        yield str(data)


def github_script(job: str) -> str:
    """The commands of a job that are its own: the making of the virtual environment is left out."""
    steps = [step.get("run", "") for step in github()["jobs"][job]["steps"]]
    return "\n".join(run for run in steps if "rocm-channel " in run)


def gitlab_script(job: str) -> str:
    return "\n".join(gitlab()[job]["script"])


SCRIPTS = {"github": github_script, "gitlab": gitlab_script}


@pytest.mark.parametrize("system", ["github-workflows", "gitlab-ci"])
def test_recipes_are_valid_for_their_systems(system: str) -> None:
    """By the schemas that check-jsonschema carries: SchemaStore's and GitLab's own."""
    from jsonschema.validators import validator_for

    schema_file = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / f"{system}.json"
    schema = json.loads(schema_file.read_text(encoding="utf-8"))
    data = github() if system == "github-workflows" else yaml.safe_load(GITLAB.read_text())
    errors = [e.message for e in validator_for(schema)(schema).iter_errors(data)]
    assert errors == []


def test_github_gives_nothing_away() -> None:
    data = github()
    assert data["on"] == {"push": {"tags": ["v*"]}}, "no pull request, no branch, nobody's button"
    assert data["permissions"] == {}
    jobs = data["jobs"]
    assert jobs["build"]["permissions"] == {"contents": "read"}
    for name in ("staging", "production"):
        assert jobs[name]["permissions"] == {"contents": "read", "id-token": "write"}
        assert jobs[name]["environment"] == name, "roles trust the job of an environment, not the repository"
    assert "!github.event.repository.fork" in jobs["build"]["if"]
    assert jobs["staging"]["needs"] == "build" and jobs["production"]["needs"] == "staging"
    assert (
        data["concurrency"]["cancel-in-progress"] == "false" or not data["concurrency"]["cancel-in-progress"]
    )
    text = GITHUB.read_text()
    assert "secrets." not in text
    uses = [line.split("uses: ")[1] for line in text.splitlines() if "uses: " in line]
    assert uses and all(PINNED.fullmatch(action) for action in uses)
    for job in jobs.values():
        assert "self-hosted" in job["runs-on"] and int(job["timeout-minutes"]) <= 2880
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), "text from outside would become part of the script"
            if "checkout@" in step.get("uses", ""):
                assert step["with"] == {"persist-credentials": False}


def test_gitlab_gives_nothing_away() -> None:
    data = gitlab()
    (rule,) = data["workflow"]["rules"]
    for part in ("$CI_COMMIT_TAG =~ /^v/", '$CI_COMMIT_REF_PROTECTED == "true"', "$ROCM_CHANNEL_PROJECT"):
        assert part in rule["if"]
    assert "id_tokens" not in data["build"]
    for name in ("staging", "production"):
        assert set(data[name]["id_tokens"]) == {"AWS_ID_TOKEN", "SIGSTORE_ID_TOKEN"}
        assert data[name]["environment"] == name and data[name]["resource_group"] == "channel"
        assert any("rm -f" in line for line in data[name]["after_script"])
    assert data["production"]["when"] == "manual" and data["production"]["allow_failure"] is False
    assert data["build"]["artifacts"]["paths"] == ["packages/"], "the token's file is in no artifact"
    assert "paths" not in data["staging"]["artifacts"]


@pytest.mark.parametrize("file", [GITHUB, GITLAB])
def test_no_long_lived_secret(file: Path) -> None:
    text = file.read_text()
    for word in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "PASSWORD", "API_KEY", "CI_JOB_TOKEN"):
        assert word not in text
    data = github() if file == GITHUB else gitlab()
    assert not any(re.search(r"AKIA[A-Z0-9]{16}|glpat-|ghp_", text) for text in strings(data))


def test_both_run_the_same_commands() -> None:
    found = {
        system: [
            line.split(" > ")[0].strip()
            for job in ("build", "staging", "production")
            for line in script(job).splitlines()
            if line.lstrip().startswith("rocm-channel ")
        ]
        for system, script in SCRIPTS.items()
    }
    assert found["github"] == found["gitlab"]
    assert [line.split()[1] for line in found["github"]] == ["build", "verify", "publish", "promote"]


def test_build_command_plans_the_whole_matrix(tmp_path: Path) -> None:
    line = next(line for line in github_script("build").splitlines() if " build " in line)
    done = rocm_channel(*line.split()[1:-1], tmp_path / "packages", "--dry-run")
    assert done.returncode == 0, done.stderr
    for part in ("rocm70_gfx90a", "rocm70_gfx942", "rocm72_gfx90a", "rocm72_gfx942"):
        assert f"vllm-rocm-0.{26 if '72' in part else 16}.0-{part}" in done.stdout


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """The working folder of a CI job: a checkout with the packages that the build job left."""
    folder = tmp_path / "job"
    packages = folder / "packages"
    release(packages, "hip-demo", "0.1.0")
    for name in ("variants", "recipes"):
        (folder / name).symlink_to(ROOT / name)
    program = tmp_path / "bin" / "rocm-channel"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m channel_tools "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    return folder


def run_job(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """As both systems do: bash, ending at the first command that fails."""
    kept = {name: value for name, value in os.environ.items() if name not in ("ROCM_CHANNEL_ROOT",)}
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env={
            **kept,
            "PATH": f"{folder.parent / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "ROCM_CHANNEL_CACHE": str(folder.parent / "cache"),
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("system", "kind"), [("github", "S3"), ("gitlab", "folder")])
def test_commands_publish_and_promote(
    system: str,
    kind: str,
    runner: Path,
    s3_server: S3Server,  # noqa: F811
) -> None:
    place = f"s3://{s3_server.bucket()}" if kind == "S3" else str(runner.parent)
    staging, production = f"{place}/staging", f"{place}/internal"
    for address in (staging, production):
        url = f"https://conda.example.com/{address.rpartition('/')[2]}"
        done = rocm_channel("channel", "init", address, "--url", url, "--name", "internal")
        assert done.returncode == 0, done.stderr
    output = runner.parent / "output"
    token = runner / ".aws-token"
    variables = {
        "ROCM_CHANNEL_STAGING": staging,
        "ROCM_CHANNEL_PRODUCTION": production,
        "GITHUB_OUTPUT": str(output),
        "AWS_ID_TOKEN": "a.test.token",
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
    }
    verify = "\n".join(line for line in SCRIPTS[system]("build").splitlines() if " verify " in line)
    done = run_job(verify, runner, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    done = run_job(SCRIPTS[system]("staging"), runner, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    if system == "github":
        release_id = output.read_text().strip().removeprefix("release=")
    else:
        release_id = (runner / "release.env").read_text().strip().removeprefix("RELEASE=")
        assert token.stat().st_mode & 0o077 == 0
    done = run_job(SCRIPTS[system]("production"), runner, RELEASE=release_id, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a.test.token" not in done.stdout + done.stderr
    store = open_store(production)
    keys = {stat.key for stat in store.list()}
    assert f"releases/{release_id}.json" in keys
    assert sum(key.endswith(".conda") and "hip-demo" in key for key in keys) == 4
    page = (store.read("index.html") or b"").decode()
    assert "hip-demo" in page and "https://conda.example.com/internal" in page and release_id in page
    done = run_job(SCRIPTS[system]("production"), runner, RELEASE="../other", **variables)
    assert done.returncode != 0 and "Traceback" not in done.stderr


@pytest.mark.parametrize("system", SCRIPTS)
def test_a_job_fails_when_publishing_fails(system: str, runner: Path) -> None:
    """Its output goes into a file, and the release must not be read out of half of it."""
    variables = {
        "ROCM_CHANNEL_STAGING": str(runner.parent / "no-channel-here"),
        "GITHUB_OUTPUT": str(runner.parent / "output"),
        "AWS_ID_TOKEN": "a.test.token",
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(runner / ".aws-token"),
    }
    done = run_job(SCRIPTS[system]("staging"), runner, **variables)
    assert done.returncode == 40, done.stdout + done.stderr
    assert not (runner.parent / "output").exists() and not (runner / "release.env").exists()

"""Checks of a build host: compiler caches, Python, Triton, pip's cache, leftovers, conda's tools."""

from __future__ import annotations

import posixpath
import re
from typing import Final

from channel_tools.diagnose.cleaning.caches import cached_wheels
from channel_tools.diagnose.cleaning.trees import leftovers
from channel_tools.diagnose.doctor import checks as c
from channel_tools.diagnose.doctor.checks import Context, Outcome, check
from channel_tools.diagnose.doctor.environments import (
    conda_base,
    conda_packages,
    distributions,
    python_folders,
    user_folders,
)
from channel_tools.diagnose.doctor.versions import at_least, at_most

_LAUNCHERS: Final = (
    "CMAKE_C_COMPILER_LAUNCHER",
    "CMAKE_CXX_COMPILER_LAUNCHER",
    "CMAKE_HIP_COMPILER_LAUNCHER",
    "RUSTC_WRAPPER",
    "CC",
    "CXX",
)
_CACHES: Final = ("ccache", "sccache")


@check("compiler-cache")
def compiler_cache(context: Context) -> Outcome:
    host = context.host
    there = {name: found for name in _CACHES if (found := host.which(name))}
    missing = []
    for variable in _LAUNCHERS:
        words = re.split(r"[;\s]+", (host.variable(variable) or "").strip())
        if posixpath.basename(words[0]) in _CACHES and host.which(words[0]) is None:
            missing.append(f"{variable}={host.variable(variable)}")
    if missing:
        return c.error(", ".join(missing) + ", which is not installed", "install it, or unset the variable")
    if len(there) > 1:
        return c.info(
            ", ".join(there.values()), "vLLM takes sccache; export VLLM_DISABLE_SCCACHE=1 for ccache"
        )
    if there:
        return c.ok(next(iter(there.values())))
    return c.info("none: every build compiles all of it again", "apt install ccache")


@check("python")
def python(context: Context) -> Outcome:
    host, versions = context.host, context.data.versions
    program = f"{context.prefix}/bin/python" if context.prefix else host.which("python3")
    output = host.run(program, "--version") if program else None
    match = re.match(r"Python (\d+\.\d+\.\d+)", output.text) if output else None
    outcomes = []
    if program is None:
        outcomes.append(c.warning("no python3", "install Python 3.12"))
    elif match:
        good = at_least(match[1], versions.python_first) and at_most(match[1], versions.python_last)
        text = f"{program} is {match[1]}"
        outcomes.append(c.ok(text) if good else c.warning(text, "use Python 3.12"))
    for name in ("PYTHONPATH", "PYTHONHOME"):
        if host.variable(name):
            outcomes.append(c.warning(f"{name}={host.variable(name)}", f"unset {name}"))
    for folder in user_folders(host):
        found = [name for name in ("torch", "triton", "vllm", "amdsmi") if host.is_dir(f"{folder}/{name}")]
        if found and not host.variable("PYTHONNOUSERSITE"):
            outcomes.append(c.warning(f"{', '.join(found)} in {folder}", "export PYTHONNOUSERSITE=1"))
    return c.worst(outcomes) or c.skipped("the version of Python is not known")


@check("triton-packages")
def triton_packages(context: Context) -> Outcome:
    host = context.host
    outcomes = []
    for folder in [*python_folders(host, context.prefix), *user_folders(host)]:
        here = distributions(host, folder)
        found = [name for name in context.data.triton_packages if name in here]
        text = f"{', '.join(f'{name} {here[name]}' for name in found)} in {folder}"
        if len(found) > 1:
            names = " ".join(found)
            outcomes.append(
                c.error(text, f"pip uninstall {names}; rm -r {folder}/triton; install the one of torch again")
            )
        elif found:
            outcomes.append(c.ok(text))
    return c.worst(outcomes) or c.ok("none is installed")


@check("pip-cache")
def pip_cache(context: Context) -> Outcome:
    found = [item.path for item in cached_wheels(context.host, context.data.cached_wheels)]
    if not found:
        return c.ok("none")
    names = ", ".join(sorted({posixpath.basename(path) for path in found}))
    return c.warning(f"{len(found)}: {names}", "rocm-channel clean, or export PIP_NO_CACHE_DIR=1")


@check("stale-build")
def stale_build(context: Context) -> Outcome:
    here = context.host.variable("PWD")
    if here is None or not context.host.is_dir(here):
        return c.skipped("the current folder is not known")
    found = [item.path for item in leftovers(context.host, here, None)]
    if not found:
        return c.ok(f"none in {here}")
    return c.warning(", ".join(found[:6]), f"rocm-channel clean {here}")


@check("conda-tools")
def conda_tools(context: Context) -> Outcome:
    base = conda_base(context.host)
    active = _conda_tools(context, context.prefix)
    # The commands of an environment that builds come before those of the base.
    place, tools = (context.prefix, active) if len(active) > 1 else (base, _conda_tools(context, base))
    if place is None:
        return c.ok("no conda: rocm-channel builds with rattler-build, which pip brings")
    if not tools:
        return c.skipped(f"{place}/conda-meta names no conda")
    text = f"{', '.join(f'{name} {version}' for name, version in tools.items())} in {place}"
    versions = context.data.versions
    fix = "conda env create -f environment-build.yml"
    if "boa" in tools and "conda" in tools and not at_most(tools["conda"], versions.conda_last_with_boa):
        return c.error(text, fix)
    if "conda-build" in tools and not at_least(tools["conda-build"], versions.conda_build):
        return c.error(text, fix)
    return c.ok(text)


def _conda_tools(context: Context, prefix: str | None) -> dict[str, str]:
    packages = conda_packages(context.host, prefix) if prefix else {}
    return {name: packages[name].version for name in ("conda", "conda-build", "boa") if name in packages}

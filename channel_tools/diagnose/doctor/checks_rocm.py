"""Checks of a build host: the ROCm root, and the variables that lead builds to an arch and to ROCm."""

from __future__ import annotations

import re
import shlex
from typing import Final

from channel_tools.diagnose.doctor import checks as c
from channel_tools.diagnose.doctor.checks import Context, Outcome, check
from channel_tools.diagnose.doctor.rocm_roots import all_roots
from channel_tools.model.arch import is_plain_target

_BITCODE: Final = ("amdgcn/bitcode", "lib/llvm/amdgcn/bitcode", "lib/llvm/lib/clang/*/lib/amdgcn/bitcode")
_KINDS: Final = ("LIBRARY", "INCLUDE", "PACKAGE")
_INSTALL: Final = "install ROCm, or make an SDK root to try things: bash build_scripts/rocm_sdk.sh .cache/sdk"
_DISTRIBUTION: Final = (
    "/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1",
    "/usr/lib64/libhsa-runtime64.so.1",
    "/usr/lib/x86_64-linux-gnu/libamdhip64.so",
    "/usr/include/hip/hip_version.h",
)


@check("rocm-root")
def rocm_root(context: Context) -> Outcome:
    host = context.host
    named = host.variable("ROCM_PATH")
    if named and not host.is_dir(named):
        return c.error(f"ROCM_PATH={named}, which is no folder", "correct or unset ROCM_PATH")
    rocm = context.rocm
    if rocm is None:
        return c.error("neither ROCM_PATH nor /opt/rocm", _INSTALL)
    if rocm.sdk:
        return c.info(
            f"{rocm.path}: an SDK of Debian packages, no ROCm 7", "for real builds install ROCm 7.0 or 7.2"
        )
    others = [root.real for root in all_roots(host) if root.real != rocm.real]
    beside = f"; beside it {', '.join(others)}" if others else ""
    if not host.is_file(f"{rocm.path}/include/hip/hip_version.h"):
        return c.error(
            f"{rocm.path} has no include/hip/hip_version.h{beside}", "install ROCm's package hip-dev"
        )
    if rocm.release is None:
        return c.error(
            f"{rocm.path} has no .info/version that can be read", "install ROCm's package rocm-core"
        )
    if rocm.release not in context.data.rocm:
        return c.warning(
            f"ROCm {rocm.text} in {rocm.path}{beside}",
            f"install ROCm {' or '.join(context.data.rocm)}, or add a column for {rocm.release} to variants/",
        )
    if not host.is_dir("/opt/rocm"):
        return c.warning(f"ROCm {rocm.text} in {rocm.path}, and no /opt/rocm", f"ln -s {rocm.real} /opt/rocm")
    return c.ok(f"ROCm {rocm.text} in {rocm.path}{beside}")


@check("device-libraries")
def device_libraries(context: Context) -> Outcome:
    host, rocm = context.host, context.rocm
    if rocm is None:
        return c.skipped("no ROCm on this host")
    folders = []
    for place in _BITCODE:
        before, star, after = place.partition("/*")
        bases = host.glob(f"{rocm.path}/{before}", ".*") if star else [f"{rocm.path}/{before}"]
        folders += [base + after for base in bases if host.is_dir(base + after)]
    if not folders:
        return c.error(
            f"no folder of bitcode in {rocm.path}",
            "install ROCm's package rocm-device-libs, or set HIP_DEVICE_LIB_PATH",
        )
    names = {name for folder in folders for name in host.names(folder)}
    missing = [arch for arch in context.data.archs if f"oclc_isa_version_{arch[3:]}.bc" not in names]
    if missing:
        return c.error(
            f"none for {', '.join(missing)} in {folders[0]}",
            "install the device libraries of a newer ROCm: those of the compiler's own release",
        )
    return c.ok(f"{folders[0]}: {', '.join(context.data.archs)}")


@check("hip-path")
def hip_path(context: Context) -> Outcome:
    host, rocm = context.host, context.rocm
    value = host.variable("HIP_PATH")
    if value is None:
        return c.ok("unset")
    trimmed = value.rstrip("/")
    if trimmed.endswith("/hip"):
        return c.error(f"HIP_PATH={value}", "unset HIP_PATH: ROCM_PATH is enough since ROCm 6")
    if not host.is_dir(value):
        return c.error(f"HIP_PATH={value}, which is no folder", "unset HIP_PATH")
    if rocm and host.real(value) != rocm.real:
        return c.error(f"HIP_PATH={value}, while ROCm is {rocm.path}", "unset HIP_PATH", wanted=rocm.path)
    return c.ok(f"HIP_PATH={value}")


@check("arch-variables")
def arch_variables(context: Context) -> Outcome:
    given = {name: value for name in context.data.arch_variables if (value := context.host.variable(name))}
    if not given:
        return c.ok("none is set")
    text = ", ".join(f"{name}={value}" for name, value in given.items())
    fix = f"unset {' '.join(given)}, and choose the arch with --arch"
    targets = {word for value in given.values() for word in re.split(r"[;,\s]+", value) if word}
    names = {target.partition(":")[0] for target in targets}
    if any(not is_plain_target(name) for name in names):
        return c.error(text, fix, wanted="names of GPU targets, as gfx942")
    if len(names) > 1:
        return c.warning(text, fix)
    if targets != names:
        return c.warning(text, fix, wanted="the target without features: such code runs in one mode only")
    if len(given) < len(context.data.arch_variables) and len(given) > 0:
        return c.info(text, "harmless for rocm-channel build; by hand set the others, too")
    return c.ok(text)


@check("find-root")
def find_root(context: Context) -> Outcome:
    text = context.host.variable("CMAKE_ARGS")
    if text is None:
        return c.ok("CMAKE_ARGS is not set")
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    modes = {}
    for word in words:
        match = re.fullmatch(r"-DCMAKE_FIND_ROOT_PATH_MODE_(\w+?)(?::\w+)?=(\w+)", word)
        if match and match[1] in _KINDS:
            modes[match[1]] = match[2]
    shut = [kind for kind in _KINDS if modes.get(kind) == "ONLY"]
    if shut:
        return c.warning(
            f"ONLY for {', '.join(shut)} in CMAKE_ARGS",
            "rocm-channel's builds lift it; by hand add "
            + " ".join(f"-DCMAKE_FIND_ROOT_PATH_MODE_{kind}=BOTH" for kind in shut),
        )
    return c.ok("CMAKE_ARGS leaves the search open")


@check("distribution-rocm")
def distribution_rocm(context: Context) -> Outcome:
    host, rocm = context.host, context.rocm
    found = [path for path in _DISTRIBUTION if host.is_file(path)]
    found = [path for path in found if not (rocm and (host.real(path) or "").startswith(rocm.real + "/"))]
    if not found:
        return c.ok("none")
    if rocm is None or rocm.real in ("/", "/usr"):
        return c.info(", ".join(found), "for ROCm 7 use AMD's packages")
    return c.warning(
        f"{', '.join(found)}, beside {rocm.path}",
        "apt remove libhsa-runtime64-1 libamdhip64-dev hipcc, and prefer AMD's packages to them",
    )

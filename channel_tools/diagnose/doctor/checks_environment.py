"""Checks of a host that runs packages: ROCm's libraries, the clients, and what an environment holds."""

from __future__ import annotations

import posixpath
import re
from typing import Final

from channel_tools.diagnose.doctor import checks as c
from channel_tools.diagnose.doctor.checks import Context, Outcome, check
from channel_tools.diagnose.doctor.environments import (
    conda_base,
    conda_packages,
    distributions,
    python_folders,
    site_packages,
)
from channel_tools.diagnose.doctor.versions import at_least, parts

_HIP: Final = r"libamdhip64(-[0-9a-f]+)?\.so(\.[0-9.]+)?"
_ROCM_PACKAGE: Final = "rocm-userspace"
_ISA: Final = r"\d{1,2}\.\d{1,2}\.\d{1,2}"
_ROCM_RELEASES_BELOW: Final = 20


@check("rocm-userspace")
def rocm_userspace(context: Context) -> Outcome:
    host = context.host
    rocm = context.rocm
    if rocm is None:
        return c.error("neither ROCM_PATH nor /opt/rocm", f"install ROCm {' or '.join(context.data.rocm)}")
    libraries = host.glob(f"{rocm.path}/lib", _HIP)
    if not libraries:
        return c.error(f"no libamdhip64.so in {rocm.path}/lib", "install ROCm's package hip-runtime-amd")
    if not host.is_dir("/opt/rocm"):
        return c.error(f"{rocm.path}, and no /opt/rocm", f"ln -s {rocm.real} /opt/rocm")
    text = f"ROCm {rocm.text or 'of unknown release'} in {rocm.path}"
    package = conda_packages(host, context.prefix).get(_ROCM_PACKAGE) if context.prefix else None
    if package and rocm.release and parts(package.version)[:2] != parts(rocm.release)[:2]:
        return c.error(
            f"{text}, while {context.prefix} is for ROCm {package.version}",
            f"install ROCm {package.version}, or make the environment anew for ROCm {rocm.release}",
            wanted=f"ROCm {package.version}",
        )
    if rocm.release not in context.data.rocm:
        return c.warning(text, "see rocm-channel variants for the releases that are built for")
    return c.ok(text)


@check("clients")
def clients(context: Context) -> Outcome:
    host, versions = context.host, context.data.versions
    good = ["rocm-channel"] if host.live else []
    other: list[str] = []
    pixi = host.which("pixi")
    output = host.run(pixi, "--version") if pixi else None
    if output and re.search(r"\d", output.text):
        version = ".".join(map(str, parts(output.text)))
        (good if at_least(version, versions.pixi) else other).append(f"pixi {version}")
    folders = [
        *python_folders(host, context.prefix),
        *(site_packages(host, b) if (b := conda_base(host)) else []),
    ]
    for folder in folders:
        here = distributions(host, folder)
        if "py-rattler" in here:
            named = f"py-rattler {here['py-rattler']}"
            (good if at_least(here["py-rattler"], versions.py_rattler) else other).append(named)
        if "rocm-channel" in here:
            good.append("rocm-channel")
        if _plugin(context, folder):
            good.append("conda with a plugin")
    for name in ("conda", "mamba", "micromamba"):
        if host.which(name) or (name == "conda" and conda_base(host)):
            other.append(name)
    if good:
        return c.ok(", ".join(dict.fromkeys(good)))
    label = "put a label in front: -c CHANNEL/label/gfx942-rocm7.2 -c CHANNEL"
    if other:
        return c.warning(
            f"only {', '.join(dict.fromkeys(other))}", f"{label}; or install pixi {versions.pixi} or newer"
        )
    fix = f"install pixi {versions.pixi} or newer, or rocm-channel from its checkout (pip install -e .)"
    return c.info("no client was found", fix)


def _plugin(context: Context, folder: str) -> bool:
    """Does a distribution there offer conda a virtual package for AMD GPUs?"""
    for path in context.host.glob(folder, r".*amdgpu.*\.dist-info"):
        if "[conda]" in (context.host.text(f"{path}/entry_points.txt") or ""):
            return True
    return False


@check("conda-overrides")
def conda_overrides(context: Context) -> Outcome:
    environ = context.host.environ
    present, arch = environ.get("CONDA_OVERRIDE_AMDGPU"), environ.get("CONDA_OVERRIDE_AMDGPU_ARCH")
    if present is None and arch is None:
        return c.ok("unset")
    text = ", ".join(
        f"{name}={value}"
        for name, value in (("CONDA_OVERRIDE_AMDGPU", present), ("CONDA_OVERRIDE_AMDGPU_ARCH", arch))
        if value is not None
    )
    if arch and not re.fullmatch(_ISA, arch):
        return c.error(text, "export CONDA_OVERRIDE_AMDGPU_ARCH=9.4.2 for gfx942, 9.0.10 for gfx90a")
    if arch and not present and not context.gpus:
        return c.warning(text, "export CONDA_OVERRIDE_AMDGPU=0 as well")
    return c.info(text, "the arch is declared, not found")


@check("package-archs")
def package_archs(context: Context) -> Outcome:
    if context.prefix is None:
        return c.skipped("no environment: give one with --prefix")
    packages = conda_packages(context.host, context.prefix)
    if not packages:
        return c.skipped(f"no conda packages in {context.prefix}")
    built: dict[str, list[str]] = {}
    for package in packages.values():
        for target in package.targets:
            built.setdefault(target, []).append(package.name)
    if not built:
        return c.ok(f"no package in {context.prefix} is for one arch only")
    text = "; ".join(f"{target}: {', '.join(sorted(names))}" for target, names in sorted(built.items()))
    fix = "make the environment anew on this host: rocm-channel install"
    if len(built) > 1:
        return c.error(text, fix, wanted="packages of one arch")
    if not context.gpus:
        return c.info(f"{text}; no GPU to compare with")
    if not set(built) & set(context.targets):
        return c.error(text, fix, wanted=", ".join(context.targets))
    return c.ok(text)


@check("hip-runtimes")
def hip_runtimes(context: Context) -> Outcome:
    host = context.host
    places = []
    for folder in python_folders(host, context.prefix):
        places += [f"{folder}/torch/lib", f"{folder}/_rocm_sdk_core/lib"]
    places += [f"{context.prefix}/lib"] if context.prefix else []
    paths = (host.variable("LD_LIBRARY_PATH") or "").split(":")
    places += [path for path in paths if path.startswith("/")]
    own = {real for place in places for path in host.glob(place, _HIP) if (real := host.real(path))}
    rocm = context.rocm
    system = (
        {real for path in host.glob(f"{rocm.path}/lib", _HIP) if (real := host.real(path))} if rocm else set()
    )
    found = sorted(own | system)
    if not found:
        return c.ok("none is there")
    text = ", ".join(found)
    others = own - system
    if len(others) > 1 or (others and system):
        # A wheel's own copy is harmless as long as nothing of /opt/rocm is loaded beside it.
        uses_system = context.prefix is not None and host.is_link(f"{context.prefix}/lib/rocm-host")
        fix = "keep one: remove torch's wheel from environments of this channel, and LD_LIBRARY_PATH"
        if len(others) > 1 or uses_system:
            return c.error(text, fix)
        return c.warning(text, f"{fix}; or let nothing load {rocm.path if rocm else '/opt/rocm'}/lib")
    return c.ok(text)


@check("prefix-path")
def prefix_path(context: Context) -> Outcome:
    prefix = context.prefix
    if prefix is None:
        return c.skipped("no environment: give one with --prefix")
    if re.search(r"\s", prefix):
        return c.error(prefix, "make the environment in a folder without spaces")
    if len(prefix) > context.data.prefix_length:
        return c.error(f"{len(prefix)} letters", "make the environment in a shorter folder")
    if re.search(r"[^A-Za-z0-9_./+@~-]", prefix):
        return c.warning(prefix, "use letters, digits and . _ + @ ~ - only")
    return c.ok(prefix)


@check("amdsmi")
def amdsmi(context: Context) -> Outcome:
    host, prefix = context.host, context.prefix
    rocm = context.rocm
    found = [
        (folder, here["amdsmi"])
        for folder in python_folders(host, prefix)
        if "amdsmi" in (here := distributions(host, folder))
    ]
    fix = "conda install amdsmi of this channel"
    if rocm:
        fix += f", or: cp -r {rocm.path}/share/amd_smi /tmp/amd_smi && pip install /tmp/amd_smi"
    wants = prefix is not None and any(name.startswith("vllm") for name in conda_packages(host, prefix))
    if not found:
        if prefix is None:
            return c.skipped("no environment: give one with --prefix")
        return c.error("none, and vLLM is installed", fix) if wants else c.info("not installed", fix)
    folder, version = found[0]
    libraries = host.glob(f"{rocm.path}/lib", r"libamd_smi\.so\.\d+(\.\d+)*") if rocm else []
    text = f"amdsmi {version} in {folder}"
    if rocm is None or not libraries:
        return c.warning(f"{text}, and no libamd_smi.so", "install ROCm's package amd-smi-lib")
    library = max(
        (posixpath.basename(path) for path in libraries), key=lambda name: parts(name.partition(".so.")[2])
    )
    number = library.partition(".so.")[2]
    if parts(version)[0] < _ROCM_RELEASES_BELOW:  # wheels and our package are numbered as ROCm is
        fits = rocm.release is None or parts(version)[:2] == parts(rocm.release)[:2]
        wanted = f"amdsmi {rocm.release}"
    else:
        fits = parts(version)[0] == parts(number)[0]
        wanted = f"amdsmi {parts(number)[0]}, as {library}"
    if not fits:
        return c.error(text, fix, wanted=wanted)
    if prefix:
        output = host.run(f"{prefix}/bin/python", "-B", "-c", "import amdsmi")
        if output and output.status:
            last = (output.text.strip().splitlines() or ["no message"])[-1]
            return c.error(f"{text}; import amdsmi: {last}", fix)
    return c.ok(f"{text}, {library}")

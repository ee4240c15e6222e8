"""Checks of a host that runs packages: the amdgpu driver, its device nodes, and who may open them."""

from __future__ import annotations

from typing import Final

from channel_tools.diagnose.doctor import checks as c
from channel_tools.diagnose.doctor.checks import Context, Outcome, check
from channel_tools.diagnose.doctor.gpus import DRI, amd_cards
from channel_tools.diagnose.doctor.host_root import Device, HostRoot
from channel_tools.diagnose.doctor.versions import parts

_KFD: Final = "/dev/kfd"
_CONTAINER: Final = "docker run --device /dev/kfd --device /dev/dri"


def is_wsl(host: HostRoot) -> bool:
    """Is it Windows' Linux, where GPUs are reached through ``/dev/dxg`` and there is no KFD?"""
    return "microsoft" in (host.text("/proc/version") or "").lower()


def shows_kernel(host: HostRoot) -> bool:
    """Does the root hold what a running kernel shows? That of an image does not."""
    return host.live or any(map(host.exists, ("/proc/version", "/sys/module", "/sys/class")))


def in_container(host: HostRoot) -> bool:
    """Does this look like a container?"""
    marks = ("/.dockerenv", "/run/.containerenv", "/.singularity.d")
    variables = ("container", "KUBERNETES_SERVICE_HOST")
    return any(map(host.exists, marks)) or any(map(host.variable, variables))


def render_nodes(host: HostRoot) -> dict[str, Device]:
    """The render nodes with their groups."""
    found = ((path, host.device(path)) for path in host.glob(DRI, r"renderD\d+"))
    return {path: device for path, device in found if device is not None}


def may_open(device: Device, uid: int, groups: frozenset[int]) -> bool:
    """May this user read and write it, by owner, group and mode?"""
    if uid == 0 or device.mode & 0o006 == 0o006:
        return True
    if uid == device.uid:
        return device.mode & 0o600 == 0o600
    return device.gid in groups and device.mode & 0o060 == 0o060


@check("driver")
def driver(context: Context) -> Outcome:
    host = context.host
    if is_wsl(host):
        if not host.exists("/dev/dxg"):
            return c.error(
                "WSL without /dev/dxg", "wsl --update, and install AMD's driver for WSL in Windows"
            )
        return c.info(
            "WSL: the GPU is reached through /dev/dxg", "name the arch with --arch: there is no KFD to ask"
        )
    if not shows_kernel(host):
        return c.skipped("no files of a running kernel")
    loaded = host.is_dir("/sys/module/amdgpu") or bool(context.all_gpus)
    if host.device(_KFD) is not None:
        return c.ok(f"{_KFD}, amdgpu {host.line('/sys/module/amdgpu/version') or 'of the kernel'}")
    if in_container(host):
        return c.error(f"a container without {_KFD}", _CONTAINER)
    if loaded:
        return c.error(
            f"amdgpu is loaded, and there is no {_KFD}", "dmesg | grep -i kfd says which GPU it refuses"
        )
    if amd_cards(host):
        return c.error("a GPU of AMD, and amdgpu is not loaded", "install amdgpu-dkms, then: modprobe amdgpu")
    return c.error("neither the module amdgpu nor a GPU of AMD", "use a host with a GPU; builds need none")


@check("kfd-access")
def kfd_access(context: Context) -> Outcome:
    return _access(context, {_KFD: device} if (device := context.host.device(_KFD)) else {})


@check("render-access")
def render_access(context: Context) -> Outcome:
    host = context.host
    nodes = render_nodes(host)
    expected = [f"{DRI}/renderD{gpu.render}" for gpu in context.all_gpus if gpu.render]
    missing = [path for path in expected if path not in nodes]
    if expected:  # other makers' cards have render nodes, too
        nodes = {path: node for path, node in nodes.items() if path in expected}
    if not missing:
        return _access(context, nodes)
    text = f"no {', '.join(missing)}"
    if in_container(host):
        lacking = c.info(text, f"all GPUs: {_CONTAINER}") if nodes else c.error(text, _CONTAINER)
    else:
        lacking = (c.warning if nodes else c.error)(
            text, "udevadm trigger; or: modprobe -r amdgpu; modprobe amdgpu"
        )
    return c.worst([lacking, *([_access(context, nodes)] if nodes else [])]) or lacking


def _access(context: Context, nodes: dict[str, Device]) -> Outcome:
    host = context.host
    if not nodes:
        return c.skipped("no such node")
    closed = _closed(host, nodes)
    if closed is None:
        return c.skipped("the groups of this process are not known")
    alike: dict[str, list[str]] = {}
    for path, node in (closed or nodes).items():
        alike.setdefault(f"{node.mode & 0o777:04o} of group {_group(host, node.gid)}", []).append(path)
    text = "; ".join(f"{', '.join(paths)}: {rights}" for rights, paths in alike.items())
    if not closed:
        return c.ok(text)
    gids = sorted({node.gid for node in closed.values()})
    if in_container(host):
        fix = "start the container with " + " ".join(f"--group-add {gid}" for gid in gids)
    else:
        names = [_name(host, gid) or str(gid) for gid in gids]
        fix = f"usermod -aG {','.join(names)} $USER, then log in again"
    return c.error(text, fix)


def _closed(host: HostRoot, nodes: dict[str, Device]) -> dict[str, Device] | None:
    """Those that this process may not open; None where its groups are not known."""
    user = host.user_ids()
    opens = {path: host.opens(path) for path in nodes}
    if user is None and None in opens.values():
        return None
    return {
        path: node
        for path, node in nodes.items()
        if not (may_open(node, *user) if user and opens[path] is None else opens[path])
    }


def _name(host: HostRoot, gid: int) -> str | None:
    return next((name for name, number in host.group_ids().items() if number == gid), None)


def _group(host: HostRoot, gid: int) -> str:
    name = _name(host, gid)
    return f"{gid} ({name})" if name else str(gid)


@check("groups")
def groups(context: Context) -> Outcome:
    host = context.host
    named = {name: gid for name, gid in host.group_ids().items() if name in ("video", "render")}
    found = render_nodes(host) | ({_KFD: kfd} if (kfd := host.device(_KFD)) else {})
    gids = sorted({node.gid for node in found.values()})
    text = ", ".join(f"{name}={gid}" for name, gid in sorted(named.items())) or "neither is in /etc/group"
    if not gids:
        return c.skipped(f"{text}; no device nodes")
    nodes = ", ".join(map(str, gids))
    if set(gids) <= set(named.values()):
        return c.ok(f"{text}; nodes: {nodes}")
    if gids == [0] or all(node.mode & 0o006 == 0o006 for node in found.values()):
        return c.info(f"{text}; nodes: {nodes}, open by their mode or to root only")
    if _closed(host, found) == {}:
        return c.info(f"{text}; nodes: {nodes}, which this process may open whatever they are called")
    return c.warning(
        f"{text}; nodes: {nodes}",
        "pass numbers, not names: " + " ".join(f"--group-add {gid}" for gid in gids)
        if in_container(host)
        else "groupadd -r render, then: udevadm trigger, or reload amdgpu",
        wanted=f"{nodes} under the names video or render",
    )


@check("driver-release")
def driver_release(context: Context) -> Outcome:
    host, rocm = context.host, context.rocm
    if not host.is_dir("/sys/module/amdgpu"):
        return c.skipped("no amdgpu driver")
    version = host.line("/sys/module/amdgpu/version")
    if not version:
        kernel = host.line("/proc/sys/kernel/osrelease") or "unknown"
        return c.info(
            f"the driver of kernel {kernel} itself", "if calls fail, compare with amdgpu-dkms of AMD"
        )
    if rocm is None or rocm.release is None:
        return c.skipped(f"amdgpu {version}, and no ROCm release to compare with")
    drivers = context.data.drivers
    known = next((one for one in drivers if parts(one.module) == parts(version)), None)
    if known is None:
        older = [one for one in drivers if parts(one.module) <= parts(version)]
        if not older:
            return c.error(f"amdgpu {version} with ROCm {rocm.release}", "install a newer amdgpu-dkms")
        return c.info(f"amdgpu {version}, which the table does not have, with ROCm {rocm.release}")
    text = f"amdgpu {version} (driver {known.release}) with ROCm {rocm.release}"
    if rocm.release in known.rocm:
        return c.ok(text)
    fit = [one.release for one in drivers if rocm.release in one.rocm]
    return c.warning(
        text,
        f"install driver {' or '.join(fit)}" if fit else "see AMD's support matrix for this ROCm",
        wanted=f"ROCm {', '.join(known.rocm)} for this driver",
    )

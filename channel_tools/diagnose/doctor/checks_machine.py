"""Checks of a build host: memory, disks, limits, locale and clock."""

from __future__ import annotations

import posixpath
import re
from datetime import UTC, datetime
from typing import Final

from channel_tools.diagnose.doctor import checks as c
from channel_tools.diagnose.doctor.checks import Context, Outcome, check
from channel_tools.diagnose.doctor.host_root import HostRoot, numbers

MIB: Final = 1 << 20
_CGROUP: Final = "/sys/fs/cgroup"
_FUTURE_SECONDS: Final = 120
_EARLIEST: Final = datetime(2025, 9, 1, tzinfo=UTC)
_DATED: Final = ("/etc/passwd", "/var/lib/dpkg/status", "/opt/rocm/.info/version")


def available_mib(host: HostRoot) -> tuple[int, str] | None:
    """Memory that a build may take in MiB, and what bounds it; as ``guard_jobs`` counts it."""
    found = numbers(host.fields("/proc/meminfo").get("MemAvailable", ""))
    if not found:
        return None
    best, bound = found[0] // 1024, "free memory"
    for row in (host.text("/proc/self/cgroup") or "").splitlines():
        _, _, rest = row.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        folder = f"{_CGROUP}/memory" if controllers else _CGROUP
        while True:
            for name in ("memory.max", "memory.limit_in_bytes"):
                text = host.line(f"{folder}{group.rstrip('/')}/{name}") or ""
                if re.fullmatch(r"[0-9]{1,18}", text) and int(text) // MIB < best:
                    best, bound = int(text) // MIB, "the control group's limit"
            if "/" not in group:
                break
            group = group.rpartition("/")[0]
    return best, bound


def cpus(host: HostRoot) -> int | None:
    """Processors that this process may use."""
    ranges = host.fields("/proc/self/status").get("Cpus_allowed_list", "")
    count = 0
    for part in ranges.split(","):
        ends = numbers(part)
        if ends:
            count += max(ends[-1] - ends[0] + 1, 1)
    return count or None


@check("memory")
def memory(context: Context) -> Outcome:
    host, sizes = context.host, context.data.sizes
    found = available_mib(host)
    if found is None:
        return c.skipped("no MemAvailable in /proc/meminfo")
    mib, bound = found
    processors = cpus(host)
    jobs = max(mib // sizes.memory_a_job, 1)
    text = f"{mib / 1024:.1f} GiB ({bound}), {processors or 'unknown number of'} processors"
    if mib < sizes.memory_least:
        return c.error(text, "build on a machine, or in a control group, with more memory")
    named = re.fullmatch(r"0*([1-9][0-9]{0,5})", (host.variable("MAX_JOBS") or "").strip())
    if named and int(named[1]) > jobs:
        return c.warning(f"{text}, MAX_JOBS={named[1]}", f"MAX_JOBS={jobs}, or unset it")
    if processors and processors > jobs and not named:
        return c.info(
            f"{text}: enough for {jobs} jobs", f"builds by hand: MAX_JOBS={jobs}; rocm-channel counts itself"
        )
    return c.ok(text)


@check("disk")
def disk(context: Context) -> Outcome:
    host, sizes = context.host, context.data.sizes
    places = [host.variable("CONDA_BLD_PATH"), host.variable("PWD"), host.home]
    outcomes = []
    for place in dict.fromkeys(place for place in places if place and place.startswith("/")):
        space = host.space(place)
        if space is None:
            continue
        text = f"{space.free / (1 << 30):.0f} GiB free in {place}"
        fix = (
            "build on another disk (work folders lie in the checkout, or CONDA_BLD_PATH); rocm-channel clean"
        )
        if space.free < sizes.disk_least * MIB:
            outcomes.append(c.error(text, fix))
        elif space.free < sizes.disk_good * MIB:
            outcomes.append(c.warning(text, fix))
        else:
            outcomes.append(c.ok(text))
    return c.worst(outcomes) or c.skipped("no disk is known")


@check("tmp")
def tmp(context: Context) -> Outcome:
    host, sizes = context.host, context.data.sizes
    folder = host.variable("TMPDIR") or "/tmp"
    if not host.is_dir(folder):
        return c.error(f"{folder} is no folder", "unset TMPDIR, or make the folder")
    mount, space = host.mount(folder), host.space(folder)
    fix = "set TMPDIR to a folder on a disk, for example: mkdir -p ~/tmp; export TMPDIR=~/tmp"
    kind = f", {mount.kind}" if mount else ""
    if mount and "noexec" in mount.options:
        return c.error(f"{folder} is mounted noexec", fix)
    if mount and "ro" in mount.options:
        return c.error(f"{folder} is mounted read-only", fix)
    if space is None:
        return c.skipped(f"the size of {folder} is not known")
    text = f"{space.free / (1 << 30):.1f} GiB free in {folder}{kind}"
    if space.free < sizes.tmp_least * MIB:
        return c.error(text, fix)
    if space.free < sizes.tmp_good * MIB:
        return c.warning(text, fix)
    return c.ok(text)


def soft_limits(host: HostRoot) -> dict[str, int | None]:
    """Soft limits of this process by their names in ``/proc/self/limits``; None is unlimited."""
    found: dict[str, int | None] = {}
    for row in (host.text("/proc/self/limits") or "").splitlines():
        match = re.match(r"(Max [a-z ]*?[a-z]) {2,}(unlimited|[0-9]{1,19}) ", row)
        if match:
            found[match[1]] = None if match[2] == "unlimited" else int(match[2])
    return found


@check("limits")
def limits(context: Context) -> Outcome:
    found = soft_limits(context.host)
    if not found:
        return c.skipped("no /proc/self/limits")
    wanted = context.data.limits
    outcomes = []
    for name, floor, option in (
        ("Max open files", wanted.open_files, "-n"),
        ("Max processes", wanted.processes, "-u"),
        ("Max stack size", wanted.stack_kib * 1024, "-s"),
    ):
        value = found.get(name)
        if value is not None and value < floor:
            number = floor // 1024 if option == "-s" else floor
            outcomes.append(c.warning(f"{name.lower()}: {value}", f"ulimit {option} {number}"))
    for name, option in (("Max address space", "-v"), ("Max file size", "-f"), ("Max data size", "-d")):
        value = found.get(name)
        if value is not None:
            outcomes.append(c.warning(f"{name.lower()}: {value}", f"ulimit {option} unlimited"))
    files = found.get("Max open files")
    return c.worst(outcomes) or c.ok(f"open files: {'unlimited' if files is None else files}")


@check("locale")
def locale(context: Context) -> Outcome:
    host = context.host
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = host.variable(name)
        if value is None:
            continue
        charset = value.partition(".")[2].partition("@")[0].lower().replace("-", "")
        if value in ("C", "POSIX"):
            return c.info(f"{name}={value}", "export LC_ALL=C.UTF-8")
        if charset != "utf8":
            return c.warning(f"{name}={value}", "export LC_ALL=C.UTF-8")
        return c.ok(f"{name}={value}")
    return c.ok("none is set: Python takes UTF-8 by itself")


@check("clock")
def clock(context: Context) -> Outcome:
    host = context.host
    now = host.now()
    if now is None:
        return c.skipped("the clock is not known")
    text = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if now < _EARLIEST.timestamp():
        return c.error(
            text, "set the clock: timedatectl set-ntp true", wanted=f"{_EARLIEST:%Y-%m-%d} or later"
        )
    here = host.variable("PWD")
    paths = list(_DATED)
    if here:
        paths += [here, *(posixpath.join(here, name) for name in host.names(here)[:200])]
    future = [path for path in paths if (host.modified(path) or 0) > now + _FUTURE_SECONDS]
    if future:
        return c.warning(
            f"{text}; from the future: {', '.join(future[:5])}",
            "set the clock (timedatectl set-ntp true), then: find . -newermt now -exec touch {} +",
        )
    return c.ok(text)

"""Checks of a host that runs packages: settings that cost speed, and limits of containers."""

from __future__ import annotations

import re

from channel_tools.diagnose.doctor import checks as c
from channel_tools.diagnose.doctor.checks import Context, Outcome, check
from channel_tools.diagnose.doctor.checks_driver import in_container
from channel_tools.diagnose.doctor.checks_machine import MIB, available_mib


@check("huge-pages")
def huge_pages(context: Context) -> Outcome:
    text = context.host.line("/sys/kernel/mm/transparent_hugepage/enabled")
    match = re.search(r"\[(\w+)\]", text or "")
    if match is None:
        return c.skipped("the kernel has none")
    if match[1] == "never":
        return c.warning("never", "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)")
    return c.ok(match[1])


@check("numa-balancing")
def numa_balancing(context: Context) -> Outcome:
    host = context.host
    value = host.line("/proc/sys/kernel/numa_balancing")
    if value is None:
        return c.skipped("the kernel has none")
    nodes = len(host.glob("/sys/devices/system/node", r"node\d+"))
    text = f"{value}, {nodes} NUMA nodes"
    if value == "0":
        return c.ok(text)
    if nodes < 2 or not context.gpus:
        return c.info(text, "nothing to do on this host")
    return c.warning(text, "sysctl kernel.numa_balancing=0 (as root)")


@check("shared-memory")
def shared_memory(context: Context) -> Outcome:
    host, sizes = context.host, context.data.sizes
    space = host.space("/dev/shm") if host.is_dir("/dev/shm") else None
    container = in_container(host)
    fix = (
        "docker run --ipc=host, or --shm-size 16g"
        if container
        else "mount -o remount,size=16G /dev/shm (as root)"
    )
    outcomes = []
    if space is not None:
        text = f"{space.total / (1 << 30):.2f} GiB in /dev/shm"
        if space.total < sizes.shared_least * MIB:
            outcomes.append(c.error(text, fix))
        elif space.total < sizes.shared_good * MIB:
            outcomes.append(c.warning(text, fix))
        else:
            outcomes.append(c.ok(text))
    found = available_mib(host)
    if found and found[1] != "free memory" and found[0] < sizes.shared_good:
        outcomes.append(c.warning(f"{found[0]} MiB ({found[1]})", "raise the limit: docker run --memory 64g"))
    return c.worst(outcomes) or c.skipped("no /dev/shm is known")

"""Checks of a host that runs packages: which GPUs it has, and which of them programs will take."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from channel_tools.client.host import isa_of
from channel_tools.diagnose.doctor import checks as c
from channel_tools.diagnose.doctor.checks import Context, Outcome, check
from channel_tools.diagnose.doctor.checks_driver import is_wsl, shows_kernel
from channel_tools.diagnose.doctor.gpus import DRI
from channel_tools.diagnose.smoke.devices import MASKS, Device, entries, read_devices, visible


def _counted(targets: list[str]) -> str:
    return ", ".join(f"{count} x {target}" for target, count in Counter(targets).items())


@check("gpus")
def gpus(context: Context) -> Outcome:
    forced = context.host.variable("ROCM_BOOTSTRAP_FORCE_GFX_ARCH")
    if not shows_kernel(context.host):
        return c.skipped("no files of a running kernel")
    if not context.gpus:
        said = f"none; rocm-channel is told to assume {forced}" if forced else "none in the KFD topology"
        if context.all_gpus:
            said = f"{len(context.all_gpus)} in the KFD topology, none with its render node in {DRI}"
        if is_wsl(context.host):
            return c.info(f"{said} (WSL has none)", "name the arch: --arch gfx1100")
        return c.warning(
            said, "see the check of the driver; on hosts without a GPU name the arch with --arch"
        )
    text = _counted([gpu.target for gpu in context.gpus])
    if forced and set(re.split(r"[,\s]+", forced)) != set(context.targets):
        return c.warning(
            f"{text}; ROCM_BOOTSTRAP_FORCE_GFX_ARCH={forced}", "unset ROCM_BOOTSTRAP_FORCE_GFX_ARCH"
        )
    fitting = [gpu for gpu in context.gpus if gpu.target in context.data.archs]
    if not fitting:
        return c.warning(
            text,
            "add the arch to variants/ and build for it, or use a host with one of these",
            wanted=" or ".join(context.data.archs),
        )
    return c.ok(text)


@check("mixed-archs")
def mixed_archs(context: Context) -> Outcome:
    discrete = [gpu for gpu in context.gpus if not gpu.integrated]
    targets = list(dict.fromkeys(gpu.target for gpu in discrete))
    if len(targets) < 2:
        return c.ok(targets[0] if targets else "no discrete GPU")
    text = _counted([gpu.target for gpu in discrete])
    if context.host.variable("ROCR_VISIBLE_DEVICES"):
        value = context.host.variable("ROCR_VISIBLE_DEVICES")
        return c.info(f"{text}; ROCR_VISIBLE_DEVICES={value}", "one environment an arch")
    ways = []
    for target in targets:
        numbers = [str(index) for index, gpu in enumerate(context.gpus) if gpu.target == target]
        ways.append(f"ROCR_VISIBLE_DEVICES={','.join(numbers)} for {target}")
    return c.warning(text, f"one environment an arch, installed with --arch: {'; '.join(ways)}")


@check("integrated-gpu")
def integrated_gpu(context: Context) -> Outcome:
    own = [gpu for gpu in context.gpus if gpu.integrated]
    discrete = [(index, gpu) for index, gpu in enumerate(context.gpus) if not gpu.integrated]
    if not own:
        return c.ok("no integrated GPU")
    text = ", ".join(f"{gpu.target} with {gpu.compute_units} compute units" for gpu in context.gpus)
    if not discrete:
        return c.info(f"{text}: integrated only")
    chosen = ",".join(str(index) for index, _ in discrete)
    if context.host.variable("ROCR_VISIBLE_DEVICES") == chosen:
        return c.ok(f"{text}; ROCR_VISIBLE_DEVICES={chosen}")
    return c.warning(text, f"export ROCR_VISIBLE_DEVICES={chosen}")


@check("visible-devices")
def visible_devices(context: Context) -> Outcome:
    environ = context.host.environ
    given = {name: environ[name] for name in MASKS if name in environ}
    if not given:
        return c.ok("none is set")
    text = ", ".join(f"{name}={value}" for name, value in given.items())
    # HIP passes over an empty HIP_ or CUDA_VISIBLE_DEVICES, and torch counts no GPU with one
    # (``_device_count_amdsmi`` in torch/cuda/__init__.py).
    empty = [name for name, value in given.items() if value.strip() in ("", "-1")]
    if empty:
        return c.error(text, f"unset {' '.join(empty)}: an empty one hides every GPU")
    rocr, hip, cuda = MASKS
    devices = read_devices(context.host)
    left = visible(devices, {rocr: given[rocr]}) if rocr in given else devices
    index = hip if hip in given else cuda
    chosen = (_chosen(rocr, given, devices), _chosen(index, given, left, among=rocr if rocr in given else ""))
    outcomes = [one for one in chosen if one]
    if rocr in given and len(given) > 1:
        outcomes.append(c.warning(text, f"keep {rocr} only"))
    if hip in given and cuda in given and given[hip] != given[cuda]:
        outcomes.append(c.warning(text, f"unset {cuda}"))
    return c.worst(outcomes) or c.ok(text)


def _chosen(
    name: str, given: Mapping[str, str], devices: Sequence[Device], among: str = ""
) -> Outcome | None:
    """What is wrong with one of these variables: it names GPUs that are not there; None for nothing."""
    value = given.get(name)
    if value is None or not devices or ("GPU-" in value.upper() and not all(one.uuid for one in devices)):
        return None
    fix = f"{name} may name 0 to {len(devices) - 1}, without blanks"
    fix += f", counted among those of {among}" if among else ""
    seen = visible(devices, {name: value})
    if not seen:
        return c.error(f"{name}={value}, which leaves no GPU", fix)
    more = len(set(entries(name, value))) - len(seen)
    return c.warning(f"{name}={value}, of which {more} are not there", fix) if more else None


@check("arch-override")
def arch_override(context: Context) -> Outcome:
    value = context.host.variable("HSA_OVERRIDE_GFX_VERSION")
    if value is None:
        return c.ok("unset")
    text = f"HSA_OVERRIDE_GFX_VERSION={value}"
    fix = "unset HSA_OVERRIDE_GFX_VERSION"
    if {isa_of(target) for target in context.targets} == {value}:
        return c.info(f"{text}, which is what the GPU is", fix)
    if any(target in context.data.archs for target in context.targets):
        return c.error(f"{text} on {_counted(list(context.targets))}", fix)
    return c.warning(text, f"{fix}, and install a package for the real arch")


@check("xnack")
def xnack(context: Context) -> Outcome:
    host = context.host
    value = host.variable("HSA_XNACK")
    retry = {"0": "on", "1": "off"}.get(
        host.line("/sys/module/amdgpu/parameters/noretry") or "", "by default"
    )
    if value is None or value == "0":
        return c.ok(f"HSA_XNACK {'is unset' if value is None else '= 0'}; retry of page faults {retry}")
    if value != "1":
        return c.warning(f"HSA_XNACK={value}", "set it to 0 or 1", wanted="0 or 1")
    cannot = [target for target in context.targets if target not in context.data.xnack_capable]
    if cannot:
        return c.warning(f"HSA_XNACK=1 on {', '.join(cannot)}, which cannot", "unset HSA_XNACK")
    fixed = [target for target in context.targets if target not in context.data.xnack_per_process]
    if retry == "off" and fixed:
        return c.error(
            f"HSA_XNACK=1, and the driver runs with noretry=1, which decides for {', '.join(fixed)}",
            "load amdgpu with noretry=0, or unset HSA_XNACK",
        )
    return c.info(
        "HSA_XNACK=1", "packages of this channel hold plain targets, which run in both modes, slower in this"
    )

"""Checks of a host that runs packages: which GPUs it has, and which of them programs will take."""

from __future__ import annotations

import re
from collections import Counter

from channel_tools.diagnose.doctor import checks as c
from channel_tools.diagnose.doctor.checks import Context, Outcome, check
from channel_tools.diagnose.doctor.checks_driver import is_wsl

_INDEXES = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def _counted(targets: list[str]) -> str:
    return ", ".join(f"{count} x {target}" for target, count in Counter(targets).items())


@check("gpus")
def gpus(context: Context) -> Outcome:
    forced = context.host.variable("ROCM_BOOTSTRAP_FORCE_GFX_ARCH")
    if not context.gpus:
        said = f"none; rocm-channel is told to assume {forced}" if forced else "none in the KFD topology"
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
    host = context.host
    names = ("ROCR_VISIBLE_DEVICES", *_INDEXES, "GPU_DEVICE_ORDINAL")
    given = {name: host.environ[name] for name in names if name in host.environ}
    if not given:
        return c.ok("none is set")
    text = ", ".join(f"{name}={value}" for name, value in given.items())
    empty = [name for name, value in given.items() if value.strip() in ("", "-1")]
    if empty:
        return c.error(text, f"unset {' '.join(empty)}: an empty one hides every GPU")
    left = len(context.gpus)
    outcomes = []
    for name, value in given.items():
        words = [word for word in re.split(r"[,\s]+", value.strip()) if word]
        numbers = [int(word) for word in words if re.fullmatch(r"[0-9]{1,6}", word)]
        if context.gpus and len(numbers) == len(words) and numbers and max(numbers) >= left:
            outcomes.append(c.error(text, f"{name} names GPU {max(numbers)} of {left}, counted from 0"))
        if name == "ROCR_VISIBLE_DEVICES":
            left = min(left, len(words))
    if "ROCR_VISIBLE_DEVICES" in given and len(given) > 1:
        outcomes.append(c.warning(text, "keep ROCR_VISIBLE_DEVICES only"))
    if all(name in given for name in _INDEXES) and given[_INDEXES[0]] != given[_INDEXES[1]]:
        outcomes.append(c.warning(text, f"unset {_INDEXES[1]}"))
    return c.worst(outcomes) or c.ok(text)


@check("arch-override")
def arch_override(context: Context) -> Outcome:
    value = context.host.variable("HSA_OVERRIDE_GFX_VERSION")
    if value is None:
        return c.ok("unset")
    text = f"HSA_OVERRIDE_GFX_VERSION={value}"
    fix = "unset HSA_OVERRIDE_GFX_VERSION"
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
    if retry == "off":
        return c.error(
            "HSA_XNACK=1, and the driver runs with noretry=1",
            "load amdgpu with noretry=0, or unset HSA_XNACK",
        )
    return c.info(
        "HSA_XNACK=1", "packages of this channel hold plain targets, which run in both modes, slower in this"
    )

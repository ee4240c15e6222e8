"""Did the GPU work? Judged by what its sensors said, not by what the programs say of themselves.

Work shows as load (the busy counter) or as power above what was drawn before. Memory alone is no proof: a
program that only opens a GPU takes some of it, on every GPU that it sees.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from channel_tools.diagnose.smoke.devices import Device
from channel_tools.diagnose.smoke.sampler_readings import MIB, Reading, Sample

BASELINE: Final = "baseline"

BUSY_PERCENT: Final = 20.0
"""Load that counts as work; opening a GPU and looking at it is expected to show as less."""

BUSY_SAMPLES: Final = 2
"""Samples with such load that are wanted: one alone may be another program's glance at the GPU."""

POWER_RISE_WATTS: Final = 20.0
"""Power above the baseline's highest that counts as work. Chosen, not measured: reports show MI250 at 220 to
237 W under load (ROCm/rocm_smi_lib#160) and MI300X at 717 W (ROCm/pytorch#1457), far above any idle GPU."""

MEMORY_RISE_BYTES: Final = 512 * MIB
"""Memory above the baseline's highest that counts as taken. The torch step holds
1 GiB; a runtime that was only opened should take less than this."""

LEAST_SAMPLES: Final = 3
"""Samples during the steps, below which nothing is concluded from the absence of work."""

LEAST_GPU_SECONDS: Final = 2.0
"""GPU work that the steps must claim before an idle sensor contradicts them: the canary's kernels take
milliseconds, which no sampler sees."""

Word = Literal["used", "idle", "wrong GPU used", "also used", "cannot tell"]


@dataclass(frozen=True)
class Numbers:
    """What one GPU's sensors said; None is what they did not tell. Watts, percent, bytes."""

    samples: int
    baseline_watts: float | None
    peak_watts: float | None
    rise_watts: float | None
    baseline_busy_percent: float | None
    peak_busy_percent: float | None
    busy_samples: int
    peak_memory_bytes: int | None
    rise_memory_bytes: int | None
    shares_power: bool
    """Is the power that of a package with a second GPU in it, or of a GPU in several partitions?"""


@dataclass(frozen=True)
class GpuVerdict:
    """The word for one GPU, why, and the numbers behind it."""

    device: Device
    word: Word
    reason: str
    numbers: Numbers

    def to_json(self) -> dict[str, Any]:
        return {
            "gpu": self.device.to_json(),
            "verdict": self.word,
            "reason": self.reason,
            "numbers": asdict(self.numbers),
        }


@dataclass(frozen=True)
class Verdict:
    """The word for the run, and for each GPU."""

    word: Word
    reason: str
    gpus: tuple[GpuVerdict, ...]

    @property
    def bad(self) -> bool:
        return self.word in ("idle", "wrong GPU used")

    def to_json(self) -> dict[str, Any]:
        return {"verdict": self.word, "reason": self.reason, "gpus": [one.to_json() for one in self.gpus]}


def judge(
    devices: Sequence[Device],
    asked: Device | None,
    samples: Sequence[Sample],
    *,
    gpu_seconds: float | None,
    ended: float | None = None,
    no_source: str = "",
) -> Verdict:
    """The verdict on a run.

    :param asked: the GPU that the steps were to use
    :param samples: of the baseline and of the steps
    :param gpu_seconds: how long the steps kept a GPU working by their own clock; None: not all passed
    :param ended: when the steps were over, in seconds of the samples' clock; None: with the last sample
    :param no_source: why there are no readings, where there are none
    """
    if asked is None:
        return Verdict("cannot tell", "no GPU can be seen by a HIP program here", ())
    if not samples:
        return Verdict("cannot tell", no_source or "no reading was taken", ())
    shared = _shared(devices, samples)
    numbers = {one.index: _numbers(one, samples, one.index in shared) for one in devices}
    worked = {index: _worked(found) for index, found in numbers.items()}
    others = [one for one in devices if one != asked and worked[one.index][0]]
    claim = Claim(gpu_seconds, _longest_gap(samples, ended))
    word, reason = _of_asked(asked, numbers[asked.index], worked[asked.index], others, claim)
    gpus = []
    for device in devices:
        state, why = worked[device.index]
        own: Word = "used" if state else "cannot tell" if state is None else "idle"
        if device == asked:
            own, why = ("idle" if word == "wrong GPU used" else word), reason
        elif state:
            own = "wrong GPU used" if word == "wrong GPU used" else "also used"
        gpus.append(GpuVerdict(device, own, why, numbers[device.index]))
    return Verdict(word, reason, tuple(gpus))


@dataclass(frozen=True)
class Claim:
    """What the absence of work is weighed against.

    :param gpu_seconds: as :func:`judge` takes it
    :param gap: the longest time during the steps in which nothing was read
    """

    gpu_seconds: float | None
    gap: float


def _longest_gap(samples: Sequence[Sample], ended: float | None) -> float:
    moments = [one.seconds for one in samples if one.phase != BASELINE]
    if moments and ended is not None:
        moments.append(ended)
    return max((after - before for before, after in itertools.pairwise(moments)), default=0.0)


def _of_asked(
    asked: Device,
    numbers: Numbers,
    worked: tuple[bool | None, str],
    others: Sequence[Device],
    claim: Claim,
) -> tuple[Word, str]:
    state, why = worked
    if state:
        return "used", f"{asked.title}: {why}"
    if state is None:
        return "cannot tell", f"{asked.title}: {why}"
    if claim.gpu_seconds is not None and claim.gpu_seconds < LEAST_GPU_SECONDS:
        return (
            "cannot tell",
            f"the steps that passed kept the GPU for {claim.gpu_seconds:.2g} s: too short to be seen",
        )
    if numbers.samples < LEAST_SAMPLES:
        return "cannot tell", f"{numbers.samples} samples during the steps are too few"
    if claim.gap >= max(claim.gpu_seconds or 0, LEAST_GPU_SECONDS):
        return "cannot tell", f"for {claim.gap:.0f} s of the steps nothing was read: work may lie there"
    if others:
        names = ", ".join(one.title for one in others)
        return "wrong GPU used", f"{asked.title} was asked for and did nothing; {names} worked"
    return "idle", f"{asked.title}: {why}"


def _worked(numbers: Numbers) -> tuple[bool | None, str]:
    """Did this GPU work, and by which numbers? None where they do not tell."""
    load_known = numbers.peak_busy_percent is not None
    load_before = numbers.baseline_busy_percent
    busy = numbers.busy_samples >= BUSY_SAMPLES
    hot = not numbers.shares_power and (numbers.rise_watts or 0) >= POWER_RISE_WATTS
    taken = (numbers.rise_memory_bytes or 0) >= MEMORY_RISE_BYTES
    text = _text(numbers)
    if load_before is not None and load_before >= BUSY_PERCENT:
        return None, f"it was busy before the steps began ({text})"
    if (busy and load_before is not None) or hot:
        return True, text
    if busy:
        return None, f"what its load was before the steps is not known ({text})"
    if not load_known and numbers.rise_watts is None:
        return None, f"its sensors tell neither load nor power ({text})"
    if taken and not load_known:
        return None, f"memory was taken; whether it worked does not show ({text})"
    if not load_known and numbers.shares_power:
        return None, f"its power is that of several GPUs, and its load is not told ({text})"
    return False, text


def _text(numbers: Numbers) -> str:
    parts = []
    if numbers.peak_watts is not None and numbers.baseline_watts is not None:
        both = " of several GPUs" if numbers.shares_power else ""
        parts.append(f"{numbers.baseline_watts:.0f} W before, {numbers.peak_watts:.0f} W at most{both}")
    if numbers.peak_busy_percent is not None:
        parts.append(f"load up to {numbers.peak_busy_percent:.0f} % ({numbers.busy_samples} samples busy)")
    if numbers.rise_memory_bytes is not None:
        parts.append(f"{numbers.rise_memory_bytes / MIB:+.0f} MiB of memory")
    return ", ".join(parts) or "no readings"


def _numbers(device: Device, samples: Sequence[Sample], shares_power: bool) -> Numbers:
    before = _readings(device, samples, baseline=True)
    during = _readings(device, samples, baseline=False)
    watts, watts_before = _values(during, "power_watts"), _values(before, "power_watts")
    load, load_before = _values(during, "busy_percent"), _values(before, "busy_percent")
    memory, memory_before = _values(during, "vram_used_bytes"), _values(before, "vram_used_bytes")
    return Numbers(
        samples=len(during),
        baseline_watts=statistics.median(watts_before) if watts_before else None,
        peak_watts=max(watts, default=None),
        rise_watts=max(watts) - max(watts_before) if watts and watts_before else None,
        baseline_busy_percent=statistics.median(load_before) if load_before else None,
        peak_busy_percent=max(load, default=None),
        busy_samples=sum(one >= BUSY_PERCENT for one in load),
        peak_memory_bytes=int(max(memory)) if memory else None,
        rise_memory_bytes=int(max(memory) - max(memory_before)) if memory and memory_before else None,
        shares_power=shares_power,
    )


def _readings(device: Device, samples: Sequence[Sample], *, baseline: bool) -> list[Reading]:
    chosen = [one for one in samples if one.phase and (one.phase == BASELINE) == baseline]
    return [reading for sample in chosen for reading in sample.readings if reading.number == device.index]


def _values(readings: Sequence[Reading], name: str) -> list[float]:
    return [value for one in readings if (value := getattr(one, name)) is not None]


def _shared(devices: Sequence[Device], samples: Sequence[Sample]) -> set[int]:
    """GPUs whose power is not theirs alone: partitions of one GPU, at one address, and dies of one package.

    A package of two reports all its power on one of them; which neighbour of one without power it is, the
    readings do not tell.
    """
    parts = Counter(one.address for one in devices if one.address)
    pairs = [one for one in devices if one.target in (None, "gfx90a")]
    order = sorted(pairs, key=lambda one: (one.address or "", one.index))
    powered = [any(_values(_of(one, samples), "power_watts")) for one in order]
    lacking = {place for place, has in enumerate(powered) if not has}
    return {one.index for one in devices if one.address and parts[one.address] > 1} | {
        one.index
        for place, one in enumerate(order)
        if powered[place] and (place - 1 in lacking or place + 1 in lacking)
    }


def _of(device: Device, samples: Sequence[Sample]) -> list[Reading]:
    return [reading for sample in samples for reading in sample.readings if reading.number == device.index]

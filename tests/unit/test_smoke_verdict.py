"""The verdict on a run: used, idle, wrong GPU used, cannot tell, with the numbers behind each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from channel_tools.diagnose.smoke import plot
from channel_tools.diagnose.smoke.devices import Device
from channel_tools.diagnose.smoke.recording import Recording
from channel_tools.diagnose.smoke.sampler_readings import MIB, Reading, Sample
from channel_tools.diagnose.smoke.verdict import (
    BUSY_PERCENT,
    LEAST_GPU_SECONDS,
    LEAST_SAMPLES,
    MEMORY_RISE_BYTES,
    POWER_RISE_WATTS,
    Verdict,
    judge,
)
from tests.unit.gpu_hosts import MI250X, MI300X, Play, devices, samples

GIB = 1 << 30
MI300 = devices(MI300X, "gfx942")
MI250 = devices(MI250X, "gfx90a")


def mi300x(*working: int, power: bool = True, load: bool = True, memory: bool = True) -> Play:
    """MI300X at rest, but for those that work during the steps; some sensors may be silent."""

    def play(phase: str, gpu: int) -> Reading:
        on = phase != "baseline" and gpu in working
        return Reading(
            gpu,
            MI300X[gpu],
            power_watts=(640.0 if on else 140.0 + gpu) if power else None,
            busy_percent=(98.0 if on else 0.0) if load else None,
            vram_used_bytes=(4 * GIB if on else 283 * MIB) if memory else None,
            vram_total_bytes=192 * GIB,
        )

    return play


def mi250x(*working: int, load: bool = True) -> Play:
    """Two packages of two dies: each even one tells the power of both."""

    def play(phase: str, gpu: int) -> Reading:
        on = phase != "baseline" and gpu in working
        package = phase != "baseline" and bool({gpu, gpu ^ 1} & set(working))
        return Reading(
            gpu,
            MI250X[gpu],
            power_watts=(237.0 if package else 92.0) if gpu % 2 == 0 else None,
            busy_percent=(96.0 if on else 0.0) if load else None,
            vram_used_bytes=3 * GIB if on else 10 * MIB,
        )

    return play


def verdict(
    play: Play, *, gpus: tuple[Device, ...] = MI300, asked: int = 0, claimed: float | None = 9.0
) -> Verdict:
    return judge(gpus, gpus[asked], samples(24, play, len(gpus)), gpu_seconds=claimed)


def words(found: Verdict) -> list[str]:
    return [one.word for one in found.gpus]


def test_used() -> None:
    found = verdict(mi300x(0))
    assert found.word == "used" and not found.bad
    assert words(found) == ["used", "idle", "idle", "idle"]
    numbers = found.gpus[0].numbers
    assert (numbers.baseline_watts, numbers.peak_watts, numbers.rise_watts) == (140, 640, 500)
    assert (numbers.peak_busy_percent, numbers.busy_samples) == (98, 24)
    assert numbers.rise_memory_bytes == 4 * GIB - 283 * MIB
    for text in ("140 W before", "640 W at most", "98 %", "+3813 MiB"):
        assert text in found.reason


def test_idle() -> None:
    found = verdict(mi300x())
    assert found.word == "idle" and found.bad
    assert words(found) == ["idle"] * 4
    assert "load up to 0 %" in found.reason


def test_wrong_gpu_used() -> None:
    found = verdict(mi300x(2), asked=1)
    assert found.word == "wrong GPU used" and found.bad
    assert words(found) == ["idle", "idle", "wrong GPU used", "idle"]
    assert "GPU 1" in found.reason and f"GPU 2 gfx942 {MI300X[2]} worked" in found.reason


def test_another_gpu_that_worked_as_well_is_not_the_wrong_one() -> None:
    found = verdict(mi300x(0, 3))
    assert found.word == "used"
    assert words(found) == ["used", "idle", "idle", "also used"]


@pytest.mark.parametrize(
    ("silent", "word"),
    [
        ({"power": False}, "used"),
        ({"load": False}, "used"),
        ({"memory": False}, "used"),
        ({"power": False, "memory": False}, "used"),
        ({"load": False, "memory": False}, "used"),
        ({"power": False, "load": False}, "cannot tell"),
        ({"power": False, "load": False, "memory": False}, "cannot tell"),
    ],
)
def test_each_sensor_may_be_silent(silent: dict[str, bool], word: str) -> None:
    assert verdict(mi300x(0, **silent)).word == word
    idle = verdict(mi300x(**silent)).word
    assert idle == ("idle" if word == "used" else "cannot tell")


@pytest.mark.parametrize("asked", range(4))
def test_each_die_of_a_package_is_told_apart(asked: int) -> None:
    found = verdict(mi250x(asked), gpus=MI250, asked=asked)
    assert found.word == "used"
    assert [one.word for one in found.gpus if one.device.index != asked] == ["idle"] * 3
    assert found.gpus[0].numbers.shares_power and not found.gpus[1].numbers.shares_power


@pytest.mark.parametrize("asked", range(4))
def test_the_other_die_of_the_package_is_the_wrong_one(asked: int) -> None:
    found = verdict(mi250x(asked ^ 1), gpus=MI250, asked=asked)
    assert found.word == "wrong GPU used", "power alone would say that the package's first die worked"


def test_power_of_two_dies_alone_tells_nothing() -> None:
    for asked in range(4):
        assert verdict(mi250x(1, load=False), gpus=MI250, asked=asked).word == "cannot tell"


def test_power_of_one_die_a_card_is_its_own() -> None:
    """A silent power sensor does not make the neighbour's power that of two: only MI200 pairs dies."""

    def play(phase: str, gpu: int) -> Reading:
        on = phase != "baseline" and gpu == 0
        return Reading(gpu, MI300X[gpu], power_watts=None if gpu == 1 else 640.0 if on else 140.0)

    assert verdict(play).word == "used"


@pytest.mark.parametrize("power", [None, (740.0, 740.0), (420.0, 700.0), (700.0, 400.0)])
@pytest.mark.parametrize("memory", [0, 4 * GIB])
def test_a_gpu_that_was_busy_before(power: tuple[float, float] | None, memory: int) -> None:
    """Whose work it is that shows, nobody can tell: the power of a busy GPU rises and falls by itself."""

    def play(phase: str, gpu: int) -> Reading:
        on = phase != "baseline"
        watts = power[on] if power else None
        used = 90 * GIB + (memory if on else 0)
        return Reading(gpu, MI300X[gpu], power_watts=watts, busy_percent=95.0, vram_used_bytes=used)

    found = verdict(play)
    assert found.word == "cannot tell" and "busy before" in found.reason
    assert not found.bad


@pytest.mark.parametrize(("working", "word"), [((0,), "cannot tell"), ((), "idle")])
def test_no_reading_before_the_steps(working: tuple[int, ...], word: str) -> None:
    taken = [one for one in samples(24, mi300x(*working), 4) if one.phase != "baseline"]
    found = judge(MI300, MI300[0], taken, gpu_seconds=9)
    assert found.word == word, found.reason


@pytest.mark.parametrize(
    ("lost", "ended", "word"),
    [
        ((0, 0), 17.0, "idle"),
        ((8, 12), 17.0, "idle"),
        ((8, 17), 17.0, "cannot tell"),
        ((10, 17), 60.0, "cannot tell"),
    ],
    ids=["never", "for less time than the work took", "in the middle", "for good"],
)
def test_a_sampler_that_is_lost(lost: tuple[float, float], ended: float, word: str) -> None:
    """Work may lie where nothing was read, so that its absence elsewhere proves nothing."""
    taken = [one for one in samples(24, mi300x(), 4) if not lost[0] <= one.seconds < lost[1]]
    found = judge(MI300, MI300[0], taken, gpu_seconds=8.5, ended=ended)
    assert found.word == word, found.reason
    seen = [one for one in samples(24, mi300x(0), 4) if not lost[0] <= one.seconds < lost[1]]
    assert judge(MI300, MI300[0], seen, gpu_seconds=8.5, ended=ended).word == "used"


def test_throttled_work_is_work() -> None:
    def play(phase: str, gpu: int) -> Reading:
        on = phase != "baseline" and gpu == 0
        return Reading(gpu, MI300X[gpu], 150.0, 105.0, 132.0 if on else 2100.0, 100.0 if on else 0.0)

    assert verdict(play).word == "used"


def test_partitions_of_one_gpu_share_its_power() -> None:
    parts = tuple(Device(index, "gfx942", MI300X[index // 4], None) for index in range(8))

    def play(phase: str, gpu: int) -> Reading:
        on = phase != "baseline"
        load = (97.0 if on and gpu == 1 else 0.0) if gpu < 4 else 0.0
        return Reading(gpu, MI300X[gpu // 4], 600.0 if on and gpu < 4 else 140.0, busy_percent=load)

    found = verdict(play, gpus=parts, asked=1)
    assert found.word == "used" and words(found) == ["idle", "used", *["idle"] * 6]
    assert verdict(play, gpus=parts, asked=0).word == "wrong GPU used"
    assert all(one.numbers.shares_power for one in found.gpus)


@pytest.mark.parametrize(
    ("share", "word"), [(BUSY_PERCENT, "used"), (BUSY_PERCENT - 1, "idle")], ids=["at", "below"]
)
def test_the_load_that_counts(share: float, word: str) -> None:
    def play(phase: str, gpu: int) -> Reading:
        return Reading(gpu, MI300X[gpu], busy_percent=share if phase != "baseline" and gpu == 0 else 0.0)

    assert verdict(play).word == word


@pytest.mark.parametrize(("rise", "word"), [(POWER_RISE_WATTS, "used"), (POWER_RISE_WATTS - 1, "idle")])
def test_the_power_that_counts(rise: float, word: str) -> None:
    """Above the highest of the baseline, not its mean: an idle GPU's power wanders."""
    taken = samples(12, lambda phase, gpu: Reading(gpu, MI300X[gpu], power_watts=140.0), 4)
    first = Reading(0, MI300X[0], power_watts=150.0)
    last = Reading(0, MI300X[0], power_watts=150.0 + rise)
    taken = (Sample(0.0, (first,), "baseline"), *taken, Sample(11.0, (last,), "torch"))
    assert judge(MI300, MI300[0], taken, gpu_seconds=9).word == word


def test_one_glance_of_another_program_is_no_work() -> None:
    taken = samples(12, mi300x(power=False), 4)
    glance = Sample(11.0, (Reading(0, MI300X[0], busy_percent=100.0),), "torch")
    assert judge(MI300, MI300[0], (*taken, glance), gpu_seconds=9).word == "idle"


def test_memory_alone_is_no_work() -> None:
    def play(phase: str, gpu: int) -> Reading:
        taken = MEMORY_RISE_BYTES if phase != "baseline" else 0
        return Reading(
            gpu, MI300X[gpu], busy_percent=1.0, power_watts=141.0, vram_used_bytes=283 * MIB + taken
        )

    assert verdict(play).word == "idle"


def test_work_too_short_to_be_seen() -> None:
    short = verdict(mi300x(), claimed=LEAST_GPU_SECONDS / 100)
    assert short.word == "cannot tell" and "too short" in short.reason
    other = verdict(mi300x(2), claimed=0.01, asked=1)
    assert other.word == "cannot tell", "work that is seen for seconds is none of a step's that took less"
    assert words(other) == ["idle", "cannot tell", "also used", "idle"]
    assert verdict(mi300x(), claimed=None).word == "idle", "a step failed: nothing excuses the silence"


def test_too_few_samples() -> None:
    taken = samples(LEAST_SAMPLES - 1, mi300x(), 4)
    assert judge(MI300, MI300[0], taken, gpu_seconds=9).word == "cannot tell"


def test_no_samples_and_no_gpu() -> None:
    found = judge(MI300, MI300[0], (), gpu_seconds=9, no_source="sysfs: no card")
    assert (found.word, found.reason) == ("cannot tell", "sysfs: no card")
    assert judge((), None, (), gpu_seconds=None).word == "cannot tell"
    other = samples(12, lambda phase, gpu: Reading(3, MI300X[3], busy_percent=0.0), 1)
    assert judge(MI300, MI300[0], other, gpu_seconds=9).word == "cannot tell", (
        "the asked GPU is not among them"
    )


def test_the_json_has_the_numbers() -> None:
    data = json.loads(json.dumps(verdict(mi250x(2), gpus=MI250, asked=2).to_json()))
    assert data["verdict"] == "used"
    assert data["gpus"][2]["numbers"]["shares_power"] is True
    assert data["gpus"][2]["gpu"]["address"] == MI250X[2]


# --- the plots ---


def recording(play: Play, gpus: tuple[Device, ...] = MI300, count: int = 24) -> Recording:
    return Recording(gpus, "played", (), samples(count, play, len(gpus)))


def test_the_plot_in_text() -> None:
    lines = plot.text_plot(recording(mi300x(0)), 40)
    assert len(lines) == 9, "two a GPU and the time"
    power = lines[0].split("|")[1]
    assert power[:11] == "▃" * 11 and power[-25:] == "█" * 25, "low before, high after"
    assert set(lines[2].split("|")[1]) == {"▃"}, "an idle GPU is low on the same scale"
    assert lines[0].endswith("140 to 640 W") and lines[1].endswith("0.3 to 4.0 GiB")
    assert "^baseline" in lines[-1] and "^torch" in lines[-1]
    assert len({len(line.split("|")[1]) for line in lines[:-1]}) == 1


def test_gaps_in_the_plot_in_text() -> None:
    taken = samples(40, mi300x(0), 1)
    left = tuple(one for one in taken if not 5 <= one.seconds < 15)
    assert "·" in plot.text_plot(Recording(MI300[:1], "played", (), left), 60)[0]
    assert plot.text_plot(Recording(MI300, "played", (), ())) == []
    one = Recording(MI300[:1], "played", (), taken[:1])
    assert "140 to 140 W" in plot.text_plot(one, 40)[0]


@pytest.mark.parametrize(
    ("play", "count"), [(mi300x(0), 24), (mi300x(0, power=False, memory=False), 5), (mi300x(), 0)]
)
def test_the_picture_is_written(tmp_path: Path, play: Play, count: int) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "plot.png"
    plot.draw(recording(play, count=count), target, title="smoke: used", asked=MI300[0])
    assert target.read_bytes().startswith(b"\x89PNG")
    plot.draw(Recording((), "", (), ()), target, title="nothing was read")
    assert [one.name for one in tmp_path.iterdir()] == ["plot.png"]

"""Readings of GPUs out of every source, as each release of the tools spells them."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from channel_tools.diagnose.doctor.hosts import open_host
from channel_tools.diagnose.smoke.devices import Device, devices_of, matched, read_devices, visible
from channel_tools.diagnose.smoke.recording import Recording, read_samples
from channel_tools.diagnose.smoke.sampler import SOURCES, Sampler, open_source
from channel_tools.diagnose.smoke.sampler_library import AmdsmiSource
from channel_tools.diagnose.smoke.sampler_programs import (
    LIST,
    METRIC,
    MONITOR,
    ROCM_SMI,
    SourceError,
    parse_metric,
    parse_monitor,
    parse_rocm_smi,
)
from channel_tools.diagnose.smoke.sampler_readings import (
    MIB,
    Reading,
    Sample,
    celsius,
    megahertz,
    number,
    percent,
    size,
    watts,
)
from channel_tools.diagnose.smoke.sampler_sysfs import SysfsSource
from tests.unit.gpu_hosts import (
    LAPTOP,
    MI250X,
    MI300X,
    SMI,
    Card,
    PlayedSource,
    put,
    recorded_host,
    write_sysfs,
)

PYTHON = Path(sys.executable)


def recorded(name: str) -> str:
    return (SMI / name).read_text(encoding="utf-8")


# --- numbers ---


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"value": 40, "unit": "W"}, (40.0, "W")),
        ({"value": "40", "unit": "W"}, (40.0, "W")),
        ({"value": "N/A", "unit": "W"}, None),
        ({"value": {"value": 3, "unit": "W"}, "unit": ""}, (3.0, "W")),
        (40, (40.0, "")),
        ("40.5 W", (40.5, "W")),
        ("(1700Mhz)", (1700.0, "Mhz")),
        ("64 °C", (64.0, "°C")),
        ("N/A", None),
        ("N/A (Secondary die)", None),
        ("AMDSMI_STATUS_NOT_SUPPORTED - 2", None),
        ("", None),
        (None, None),
        (True, None),
        ([1], None),
        ({}, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        ("9" * 400, None),
    ],
)
def test_a_number_in_each_of_its_forms(given: object, wanted: object) -> None:
    assert number(given) == wanted


def test_units_and_fillers() -> None:
    assert watts("237000000 uW") == pytest.approx(237)
    assert watts(0xFFFF) is watts(0xFFFFFFFF) is watts(0xFFFFFFFFFFFFFFFF) is None
    assert watts(0) is None, "the second die of a package says 0"
    for filler in ("N/A", 0, 0xFFFF, 0xFFFFFFFF, {"value": 0xFFFF, "unit": "W"}):
        assert watts(filler, {"value": 94, "unit": "W"}) == 94
    assert celsius("N/A", 0, 46) == 46
    assert megahertz(0xFFFF, 1700) == 1700 and percent(0xFFFF, 97) == 97
    assert size(0xFFFFFFFFFFFFFFFF, 64) == 64 << 20
    assert celsius(46000) == celsius(46) == 46
    assert celsius(0) is None
    assert megahertz("1700000000 Hz") == megahertz("(1700Mhz)") == megahertz("1.7 GHz") == 1700
    assert megahertz(0xFFFF) is None
    assert percent(101) is percent(-1) is percent(0xFFFF) is None
    assert percent(0) == 0
    assert size({"value": 64.0, "unit": "GB"}) == 64 << 30
    assert size(64) == size("64 MB") == size("67108864 B") == size("67108864", unit="B") == 64 << 20
    assert size(0xFFFFFFFFFFFFFFFF, unit="B") is None


# --- what the programs print ---


def columns(readings: list[Reading], name: str) -> list[object]:
    return [getattr(one, name) for one in readings]


@pytest.mark.parametrize(
    ("parse", "name"),
    [
        (parse_monitor, "amd-smi-monitor-mi250x-6.2.json"),
        (parse_monitor, "amd-smi-monitor-texts.json"),
        (parse_metric, "amd-smi-metric-mi250x-6.2.json"),
        (parse_metric, "amd-smi-metric-mi250x-5.7.json"),
        (parse_rocm_smi, "rocm-smi-mi250x-7.0.json"),
    ],
)
def test_two_dies_a_package_with_the_power_on_one(parse: object, name: str) -> None:
    readings = parse(recorded(name))  # type: ignore[operator]
    assert columns(readings, "power_watts") == [237, None, 92, None]
    assert columns(readings, "temperature_celsius") == [66, 64, 44, 44]
    assert columns(readings, "clock_mhz") == [1700, 1700, 800, 800]
    assert columns(readings, "busy_percent") == [97, 96, 0, 0]
    assert columns(readings, "vram_used_bytes") == [9216 * MIB, 9100 * MIB, 10 * MIB, 10 * MIB]
    assert columns(readings, "vram_total_bytes") == [65520 * MIB] * 4


@pytest.mark.parametrize(
    ("parse", "name"),
    [
        (parse_monitor, "amd-smi-monitor-mi300x-7.2.json"),
        (parse_metric, "amd-smi-metric-mi300x-7.2.json"),
    ],
)
def test_mi300x_with_values_that_are_not_available(parse: object, name: str) -> None:
    readings = parse(recorded(name))  # type: ignore[operator]
    assert columns(readings, "power_watts") == [612, 141, None, 139]
    assert columns(readings, "busy_percent") == [94, 0, None, 0]
    assert columns(readings, "temperature_celsius") == [61] * 4
    assert columns(readings, "vram_used_bytes") == [used * MIB for used in (17153, 284, 283, 283)]


def test_rocm_smi_of_mi300x_has_no_edge_and_the_present_power() -> None:
    readings = parse_rocm_smi(recorded("rocm-smi-mi300x-7.0.json"))
    assert columns(readings, "power_watts") == [612, 141, 139]
    assert columns(readings, "temperature_celsius") == [61] * 3
    assert columns(readings, "address") == list(MI300X[:3]), "lower case, as the kernel writes them"


def test_rocm_smi_of_older_releases() -> None:
    card = {
        "Temperature (Sensor edge) (c)": "77.0",
        "Average Graphics Package Power (W)": "222.0",
        "sclk clock level": "7 (1802Mhz)",
        "GPU use (%)": "100",
        "VRAM Total Memory (B)": "17163091968",
        "VRAM Total Used Memory (B)": "17457152",
    }
    (reading,) = parse_rocm_smi(json.dumps({"card0": card}))
    assert (reading.power_watts, reading.temperature_celsius, reading.clock_mhz) == (222, 77, 1802)
    assert reading.vram_used_bytes == 17457152


@pytest.mark.parametrize("parse", [parse_monitor, parse_metric, parse_rocm_smi])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "NOT_SUPPORTED",
        "[]",
        "{}",
        "[1, 2]",
        "[{}]",
        "null",
        '{"gpu_data": "N/A"}',
        "[" * 5000,
        '[{"gpu": "N/A"}]',
    ],
)
def test_what_is_no_answer_is_a_reason(parse: object, text: str) -> None:
    with pytest.raises(SourceError):
        parse(text)  # type: ignore[operator]


@pytest.mark.parametrize("parse", [parse_monitor, parse_metric])
def test_texts_in_place_of_parts_are_no_readings(parse: object) -> None:
    row = {"gpu": 0, "power": "N/A", "usage": "N/A", "mem_usage": "N/A", "clock": [], "temperature": None}
    assert parse(json.dumps([row])) == [Reading(0)]  # type: ignore[operator]


def test_partitions_of_one_gpu_are_one_row() -> None:
    rows = [{"gpu": 0, "xcp": part, "power_usage": {"value": 140, "unit": "W"}} for part in range(8)]
    assert len(parse_monitor(json.dumps(rows))) == 1


# --- the library ---


def library(name: str) -> AmdsmiSource:
    return AmdsmiSource(PYTHON, {**os.environ, "PYTHONPATH": str(SMI / "library" / name)})


def test_the_library_of_rocm_6() -> None:
    source = library("rocm6")
    first, second = source.read()
    source.close()
    assert source.release == "24.5.1"
    assert first == Reading(0, "0000:c1:00.0", 94, 51, 1650, 37, 1024 * MIB, 65520 * MIB)
    assert second.power_watts is None


@pytest.mark.parametrize("filler", ["0xFFFF", "0xFFFFFFFF", "0"])
def test_a_library_that_passes_fillers_on(tmp_path: Path, filler: str) -> None:
    """ROCm 6.0 gives what the driver's table has; later releases turn 0xFFFF into N/A."""
    text = (SMI / "library" / "rocm6" / "amdsmi.py").read_text(encoding="utf-8")
    changed = text.replace('"current_socket_power": "N/A"', f'"current_socket_power": {filler}')
    assert changed != text
    put(tmp_path / "amdsmi.py", changed)
    source = AmdsmiSource(PYTHON, {**os.environ, "PYTHONPATH": str(tmp_path)})
    try:
        assert columns(source.read(), "power_watts") == [94, None]
    finally:
        source.close()


def test_the_library_of_rocm_7() -> None:
    source = library("rocm7")
    first, second = source.read()
    again = source.read()
    source.close()
    source.close()
    assert first == again[0] == Reading(0, MI300X[0], 612, 61, 2104, 94, 17153 * MIB, 196592 * MIB)
    assert second == Reading(1, MI300X[1], None, None, None, None, 283 * MIB, 196592 * MIB)
    with pytest.raises(SourceError, match="has ended"):
        source.read()


def test_the_library_of_rocm_5() -> None:
    source = library("rocm5")
    assert source.read() == [Reading(0, "0000:03:00.0", 40, None, None, 3, 512 * MIB, 16368 * MIB)]
    source.close()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none", "no Python module amdsmi"),
        ("broken", "libamd_smi.so"),
        ("crash", "ended by signal 11"),
        ("exits", "no driver"),
    ],
)
def test_a_library_that_does_not_work_is_a_reason(name: str, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        library(name)


# --- sysfs, and which GPU is which ---


def test_sysfs_of_mi250x(tmp_path: Path) -> None:
    cards = [Card(237, 97, 9216), Card(0, 96, 9100), Card(92, 0, 10), Card(0, 0, 10)]
    host = open_host(write_sysfs(tmp_path, MI250X, cards, [1, 0, 3, 2]))
    opened = open_source(host, PYTHON)
    assert opened.source is not None and opened.source.name == "sysfs"
    assert [name for name, _ in opened.refused] == ["amdsmi", "amd-smi", "rocm-smi"]
    assert [one.address for one in opened.devices] == [MI250X[number] for number in (1, 0, 3, 2)]
    assert {one.target for one in opened.devices} == {"gfx90a"}
    readings = matched(opened.devices, opened.source.read())
    assert columns(list(readings), "power_watts") == [None, 237, None, 92], "under HIP's numbers"
    assert columns(list(readings), "temperature_celsius") == [46] * 4
    assert columns(list(readings), "clock_mhz") == [1700] * 4
    assert readings[1].vram_used_bytes == 9216 * MIB


def test_sysfs_of_mi300x_has_power_input_and_no_edge(tmp_path: Path) -> None:
    cards = [Card(612, 94, 17153, 196592, "power1_input", edge=False)] * 4
    (first, *_) = SysfsSource(open_host(write_sysfs(tmp_path, MI300X, cards, range(4)))).read()
    assert (first.power_watts, first.temperature_celsius, first.address) == (612, 46, MI300X[0])


def test_sysfs_of_a_laptop_without_labels(tmp_path: Path) -> None:
    root = write_sysfs(tmp_path, LAPTOP, [Card(9, 12, 482, 512, "power1_input")], [0])
    for name in ("temp1_label", "temp2_label", "temp2_input"):
        (root / "sys/class/drm/card1/device/hwmon/hwmon3" / name).unlink()
    (only,) = SysfsSource(open_host(root)).read()
    assert (only.power_watts, only.temperature_celsius, only.busy_percent) == (9, 41, 12)


def test_files_that_are_missing_or_odd_are_no_readings(tmp_path: Path) -> None:
    put(tmp_path / "sys/class/drm/card0/device/vendor", "0x1002\n")
    put(tmp_path / "sys/class/drm/card0/device/gpu_busy_percent", "")
    put(tmp_path / "sys/class/drm/card0/device/mem_info_vram_used", "many\n")
    opened = open_source(open_host(tmp_path), PYTHON)
    assert opened.source is None
    assert "neither power, nor load, nor memory" in dict(opened.refused)["sysfs"]


def test_no_source_has_a_reason_each(tmp_path: Path) -> None:
    opened = open_source(open_host(tmp_path), PYTHON)
    assert opened.source is None
    assert [name for name, _ in opened.refused] == list(SOURCES)
    assert "no card of the driver amdgpu" in opened.reasons


@pytest.mark.parametrize("card", ["mi250x", "mi300x"])
def test_programs_come_before_sysfs_and_numbers_go_by_address(tmp_path: Path, card: str) -> None:
    addresses = MI250X if card == "mi250x" else MI300X
    release = "6.2" if card == "mi250x" else "7.2"
    programs = {
        " ".join(MONITOR): recorded(f"amd-smi-monitor-{card}-{release}.json"),
        " ".join(LIST): recorded(f"amd-smi-list-{card}.json"),
    }
    host = recorded_host(tmp_path, programs)
    write_sysfs(tmp_path / "root", addresses, [Card(1, 1, 1)] * 4, [3, 2, 1, 0])
    opened = open_source(open_host(host), PYTHON)
    assert opened.source is not None and opened.source.name == "amd-smi"
    last = matched(opened.devices, opened.source.read())[3]
    assert (last.number, last.address) == (3, addresses[0])


def test_metric_where_monitor_gives_nothing(tmp_path: Path) -> None:
    programs = {
        " ".join(MONITOR): "ERROR: this command is not supported\n",
        " ".join(METRIC): recorded("amd-smi-metric-mi300x-7.2.json"),
    }
    opened = open_source(open_host(recorded_host(tmp_path, programs)), PYTHON)
    assert opened.source is not None
    assert columns(opened.source.read(), "power_watts") == [612, 141, None, 139]
    assert len(opened.devices) == 4, "without a topology, the GPUs are those of the source"


def test_rocm_smi_where_there_is_no_amd_smi(tmp_path: Path) -> None:
    programs = {" ".join(ROCM_SMI): recorded("rocm-smi-mi250x-7.0.json")}
    opened = open_source(open_host(recorded_host(tmp_path, programs)), PYTHON)
    assert opened.source is not None and opened.source.name == "rocm-smi"
    assert [one.address for one in opened.devices] == list(MI250X)


def test_readings_without_addresses_go_by_address_order() -> None:
    devices = (Device(0, "gfx942", "0000:38:00.0"), Device(1, "gfx942", "0000:0c:00.0"))
    readings = [Reading(0, power_watts=10.0), Reading(1, power_watts=20.0)]
    assert [one.power_watts for one in matched(devices, readings)] == [20, 10]
    assert matched(devices, readings[:1]) == (), "which of the two it is, is not told"


CPX = tuple(Device(index, "gfx942", MI300X[index // 4]) for index in range(8))


@pytest.mark.parametrize(
    ("told", "watts"),
    [
        ([[140.0], [150.0]], [140.0] * 4 + [150.0] * 4),
        ([[140.0, None, None, None], [150.0, None, None, None]], [140.0] * 4 + [150.0] * 4),
        ([[None, 140.0, None, None], []], [140.0] * 4),
        ([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
        ([[None] * 4, [150.0]], [None] * 4 + [150.0] * 4),
    ],
    ids=["one a GPU", "the others say N/A", "any of them", "one a partition", "silent"],
)
def test_partitions_of_a_gpu_have_one_address(
    told: list[list[float | None]], watts: list[float | None]
) -> None:
    """What amd-smi says of the parts after the first differs by release (ROCm/amdsmi#134)."""
    readings = [
        Reading(8 * gpu + part, MI300X[gpu], power_watts=value)
        for gpu, values in enumerate(told)
        for part, value in enumerate(values)
    ]
    found = matched(CPX, readings)
    assert [one.power_watts for one in found] == watts
    assert len({one.number for one in found}) == len(found)


def test_a_gpu_that_was_not_handed_in_has_no_number(tmp_path: Path) -> None:
    """HIP counts the GPUs whose render node is there; the topology may show all of them."""
    write_sysfs(tmp_path / "root", MI300X, [Card(140, 0, 283)] * 4, range(4))
    record = {f"/dev/dri/renderD{number}": {"mode": "666", "uid": 0, "gid": 0} for number in (130, 131)}
    for devices, seen in (({}, MI300X), (record, MI300X[2:])):
        put(tmp_path / "host.json", json.dumps({"devices": devices}))
        found = read_devices(open_host(tmp_path))
        assert [(one.index, one.address) for one in found] == list(enumerate(seen))
        opened = open_source(open_host(tmp_path), PYTHON, ["sysfs"])
        assert opened.source is not None
        assert [one.number for one in matched(opened.devices, opened.source.read())] == [*range(len(seen))]


GPUS = tuple(Device(index, uuid=f"GPU-{index:016x}") for index in range(4))


@pytest.mark.parametrize(
    ("environ", "seen"),
    [
        ({}, [0, 1, 2, 3]),
        ({"HIP_VISIBLE_DEVICES": "2"}, [2]),
        ({"HIP_VISIBLE_DEVICES": "3,1"}, [3, 1]),
        ({"HIP_VISIBLE_DEVICES": "0,2,-1,1"}, [0, 2]),
        ({"HIP_VISIBLE_DEVICES": "7"}, []),
        ({"HIP_VISIBLE_DEVICES": ""}, [0, 1, 2, 3]),
        ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "3"}, [3]),
        ({"HIP_VISIBLE_DEVICES": "9" * 5000}, []),
        ({"HIP_VISIBLE_DEVICES": "-1"}, []),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
        ({"HIP_VISIBLE_DEVICES": "1,1,"}, [1]),
        ({"HIP_VISIBLE_DEVICES": "1, 2"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": " 1 , 2 "}, [1, 2]),
        ({"ROCR_VISIBLE_DEVICES": "gpu-0000000000000003"}, [3]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "2"}, [2]),
        ({"ROCR_VISIBLE_DEVICES": "2,3"}, [2, 3]),
        ({"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "1"}, [3]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-0000000000000003,1"}, [3, 1]),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}, []),
        ({"HIP_VISIBLE_DEVICES": "²"}, []),
    ],
)
def test_what_a_hip_program_sees(environ: dict[str, str], seen: list[int]) -> None:
    assert [one.index for one in visible(GPUS, environ)] == seen


def test_the_topology_of_the_doctors_hosts(repo_root: Path) -> None:
    host = open_host(repo_root / "tests" / "data" / "hosts" / "mi250x-node")
    assert [one.target for one in read_devices(host)] == ["gfx90a"] * 8
    assert read_devices(host)[0].address == "0000:01:00.0"


# --- the sampler ---


def test_sampling_goes_on_over_gaps() -> None:
    def play(read: int) -> list[Reading]:
        if read == 1:
            raise SourceError("busy")
        return [Reading(0, power_watts=50.0 + read)]

    source = PlayedSource(play)
    seen: list[Sample] = []
    sampler = Sampler(source, devices_of([Reading(0)]), 0.02, seen.append)
    sampler.start()
    sampler.phase = "work"
    deadline = time.monotonic() + 10
    while len(sampler.samples) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    sampler.stop()
    assert source.closed and sampler.failures == 1 and sampler.last_failure == "busy"
    assert seen == sampler.samples and [one.readings[0].power_watts for one in seen[:3]] == [50, 52, 53]
    assert seen[-1].phase == "work"
    assert [one.seconds for one in seen] == sorted(one.seconds for one in seen)


@pytest.mark.parametrize(
    "error", [SourceError("busy"), KeyError("gpu"), TypeError("no list"), OSError(5, "I/O error")]
)
def test_no_fault_of_a_source_ends_the_sampling(error: Exception) -> None:
    end = threading.Event()

    def play(read: int) -> list[Reading]:
        if read % 2:
            raise error
        return [Reading(0, power_watts=50.0)]

    def listen(_: Sample) -> None:
        if len(sampler.samples) > 2:
            end.set()

    sampler = Sampler(PlayedSource(play), devices_of([Reading(0)]), 0.001, listen)
    sampler.start()
    assert end.wait(10), sampler.last_failure
    sampler.stop()
    assert sampler.failures >= 2 and str(error) in sampler.last_failure


def test_a_slow_source_is_read_without_a_pause_and_not_twice_at_once() -> None:
    running = threading.Semaphore(1)

    def play(_: int) -> list[Reading]:
        assert running.acquire(blocking=False)
        time.sleep(0.05)
        running.release()
        return [Reading(0, power_watts=1.0)]

    sampler = Sampler(PlayedSource(play), devices_of([Reading(0)]), 0.001)
    sampler.start()
    time.sleep(0.4)
    sampler.stop()
    assert 3 <= len(sampler.samples) <= 10


def test_samples_are_kept_and_read_again(tmp_path: Path) -> None:
    taken = (
        Sample(0.0, (Reading(0, MI300X[0], 140.0, 40.0, 132.0, 0.0, 283 * MIB, 196592 * MIB),), "baseline"),
        Sample(0.5, (Reading(0, MI300X[0]),), "torch"),
    )
    recording = Recording(devices_of(taken[0].readings), "sysfs", (), taken)
    recording.write_samples(tmp_path)
    lines = (tmp_path / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert read_samples(lines) == taken
    (row,) = recording.summary()
    assert row["power_watts"] == {"least": 140.0, "mean": 140.0, "most": 140.0}
    assert recording.spans() == [("baseline", 0.0, 0.0), ("torch", 0.5, 0.5)]

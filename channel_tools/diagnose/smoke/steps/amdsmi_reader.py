# mypy: ignore-errors
"""Reads GPUs through the Python module ``amdsmi``: one JSON line for each line on standard input.

A program of its own because the module belongs to the environment under test, because a library that does not
fit the driver may crash, and because the module prints. Answers go to the file descriptor given as argument.

The interface of ROCm 5.7, 6.x and 7.x differs: functions came, were renamed and changed their keys; every
call is tried by the newest name first, and what none gives is left out.
"""

import json
import os
import sys


def call(amdsmi, names, *arguments):
    """The first of the functions that is there and works; None where none does."""
    for name in names:
        function = getattr(amdsmi, name, None)
        if function is None:
            continue
        try:
            return function(*arguments)
        except Exception:  # of the library's own classes, which differ by release
            continue
    return None


def numbers(values, *keys):
    """The values that are numbers."""
    found = [values.get(key) if isinstance(values, dict) else None for key in keys]
    return [one for one in found if isinstance(one, (int, float)) and not isinstance(one, bool)]


def first(values, *keys):
    """The first value that is a number."""
    return next(iter(numbers(values, *keys)), None)


def member(amdsmi, kind, *names):
    found = getattr(amdsmi, kind, None)
    return next((getattr(found, name) for name in names if hasattr(found, name)), None)


def temperature(amdsmi, handle):
    current = member(amdsmi, "AmdSmiTemperatureMetric", "CURRENT")
    for name in ("HOTSPOT", "JUNCTION", "EDGE"):
        sensor = member(amdsmi, "AmdSmiTemperatureType", name)
        value = None if sensor is None else call(amdsmi, ["amdsmi_get_temp_metric"], handle, sensor, current)
        if isinstance(value, (int, float)) and value > 0:
            return value
    return None


def memory(amdsmi, handle):
    """Used and total VRAM in bytes; older releases give MiB only."""
    kind = member(amdsmi, "AmdSmiMemoryType", "VRAM")
    used = call(amdsmi, ["amdsmi_get_gpu_memory_usage", "amdsmi_dev_get_memory_usage"], handle, kind)
    total = call(amdsmi, ["amdsmi_get_gpu_memory_total", "amdsmi_dev_get_memory_total"], handle, kind)
    if isinstance(used, int) and isinstance(total, int) and total > 0:
        return used, total
    usage = call(amdsmi, ["amdsmi_get_gpu_vram_usage", "amdsmi_get_vram_usage"], handle)
    used, total = first(usage, "vram_used"), first(usage, "vram_total")
    return (None if used is None else used << 20), (None if total is None else total << 20)


def read(amdsmi, handle):
    power = call(amdsmi, ["amdsmi_get_power_info", "amdsmi_get_power_measure"], handle)
    activity = call(amdsmi, ["amdsmi_get_gpu_activity"], handle)
    kinds = [member(amdsmi, "AmdSmiClkType", name) for name in ("GFX", "SYS")]
    clock = call(amdsmi, ["amdsmi_get_clock_info", "amdsmi_get_clock_measure"], handle, kinds[0] or kinds[1])
    used, total = memory(amdsmi, handle)
    return {
        # All of them: ROCm 6.0 fills those that the GPU lacks with 65535 or 0.
        "power_watts": numbers(power, "socket_power", "current_socket_power", "average_socket_power"),
        "temperature_celsius": temperature(amdsmi, handle),
        "clock_mhz": first(clock, "clk", "cur_clk"),
        "busy_percent": first(activity, "gfx_activity"),
        "vram_used_bytes": used,
        "vram_total_bytes": total,
    }


def main():
    answers = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8")

    def answer(data):
        answers.write(json.dumps(data) + "\n")
        answers.flush()

    try:
        import amdsmi

        amdsmi.amdsmi_init()
        handles = call(amdsmi, ["amdsmi_get_processor_handles", "amdsmi_get_device_handles"])
        names = ["amdsmi_get_gpu_device_bdf", "amdsmi_get_device_bdf"]
        addresses = [call(amdsmi, names, handle) for handle in handles or []]
    except ModuleNotFoundError as error:
        answer({"error": f"no Python module {error.name} in {sys.prefix}"})
        return
    except BaseException as error:
        answer({"error": f"{type(error).__name__}: {error}"})
        return
    answer({"release": str(getattr(amdsmi, "__version__", "")), "addresses": addresses})
    for _ in sys.stdin:
        answer([read(amdsmi, handle) for handle in handles])
    amdsmi.amdsmi_shut_down()


if __name__ == "__main__":
    main()

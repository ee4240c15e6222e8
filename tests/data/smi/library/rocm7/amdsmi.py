"""A stand-in for the module of ROCm 7: ``socket_power``, ``clk``, HOTSPOT, memory in bytes, fillers."""

from enum import IntEnum

__version__ = "26.2.2"


class AmdSmiTemperatureType(IntEnum):
    EDGE = 0
    HOTSPOT = 1
    JUNCTION = 1


class AmdSmiTemperatureMetric(IntEnum):
    CURRENT = 0


class AmdSmiClkType(IntEnum):
    SYS = 0
    GFX = 0


class AmdSmiMemoryType(IntEnum):
    VRAM = 0


def amdsmi_init(flag=None):
    pass


def amdsmi_shut_down():
    pass


def amdsmi_get_processor_handles():
    return [0, 1]


def amdsmi_get_gpu_device_bdf(handle):
    return ["0000:0c:00.0", "0000:22:00.0"][handle]


def amdsmi_get_power_info(handle):
    power = [612, 0xFFFFFFFFFFFFFFFF][handle]
    return {"socket_power": power, "current_socket_power": power, "average_socket_power": "N/A"}


def amdsmi_get_gpu_activity(handle):
    return {"gfx_activity": [94, "N/A"][handle], "umc_activity": 61, "mm_activity": "N/A"}


def amdsmi_get_gpu_memory_usage(handle, kind):
    return [17153 << 20, 283 << 20][handle]


def amdsmi_get_gpu_memory_total(handle, kind):
    return 196592 << 20


def amdsmi_get_clock_info(handle, kind):
    return {"clk": [2104, "N/A"][handle], "max_clk": 2100}


def amdsmi_get_temp_metric(handle, sensor, metric):
    return [61, 0][handle]

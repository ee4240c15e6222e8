"""A stand-in for the module of ROCm 6.1: power of the present or the average, clocks as ``cur_clk``."""

from enum import IntEnum

__version__ = "24.5.1"


class AmdSmiLibraryException(Exception):  # noqa: N818
    pass


class AmdSmiTemperatureType(IntEnum):
    EDGE = 0
    JUNCTION = 1
    VRAM = 2


class AmdSmiTemperatureMetric(IntEnum):
    CURRENT = 0


class AmdSmiClkType(IntEnum):
    SYS = 0
    MEM = 5


class AmdSmiMemoryType(IntEnum):
    VRAM = 0


def amdsmi_init(flag=None):
    print("noise on standard output")


def amdsmi_shut_down():
    pass


def amdsmi_get_processor_handles():
    return [0, 1]


def amdsmi_get_gpu_device_bdf(handle):
    return ["0000:C1:00.0", "0000:C6:00.0"][handle]


def amdsmi_get_power_info(handle):
    return {"current_socket_power": "N/A", "average_socket_power": [94, 0][handle], "gfx_voltage": 0}


def amdsmi_get_gpu_activity(handle):
    return {"gfx_activity": [37, 0][handle], "umc_activity": 0, "mm_activity": "N/A"}


def amdsmi_get_gpu_vram_usage(handle):
    return {"vram_total": 65520, "vram_used": 1024}


def amdsmi_get_gpu_memory_usage(handle, kind):
    raise AmdSmiLibraryException(2)


def amdsmi_get_clock_info(handle, kind):
    return {"cur_clk": 1650, "max_clk": 1700, "min_clk": 500}


def amdsmi_get_temp_metric(handle, sensor, metric):
    if sensor == AmdSmiTemperatureType.EDGE:
        raise AmdSmiLibraryException(2)
    return 51

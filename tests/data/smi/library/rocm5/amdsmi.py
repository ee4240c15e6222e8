"""A stand-in for the module of ROCm 5.5: other names for nearly everything."""


def amdsmi_init():
    pass


def amdsmi_shut_down():
    pass


def amdsmi_get_device_handles():
    return ["first"]


def amdsmi_get_device_bdf(handle):
    return "0000:03:00.0"


def amdsmi_get_power_measure(handle):
    return {"average_socket_power": 40, "voltage_gfx": 806}


def amdsmi_get_gpu_activity(handle):
    return {"gfx_activity": 3}


def amdsmi_get_vram_usage(handle):
    return {"vram_total": 16368, "vram_used": 512}

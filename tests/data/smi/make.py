"""Writes the recorded outputs beside this file: ``python tests/data/smi/make.py``.

Made by hand after the layouts that ROCm/amdsmi, ROCm/rocm-systems and ROCm/rocm_smi_lib print, with values as
public reports show them (ROCm/rocm_smi_lib#160, henrygd/beszel#414 and #737). No machine was copied.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NA = "N/A"


def unit(value: object, name: str) -> object:
    return value if value == NA else {"value": value, "unit": name}


def mi250x_address(number: int) -> str:
    return ["0000:29:00.0", "0000:2c:00.0", "0000:2f:00.0", "0000:32:00.0"][number]


def mi300x_address(number: int) -> str:
    return ["0000:0c:00.0", "0000:22:00.0", "0000:38:00.0", "0000:5c:00.0"][number]


def listing(addresses: list[str]) -> list[dict[str, Any]]:
    return [
        {"gpu": gpu, "bdf": bdf, "uuid": f"{gpu:02x}ff740c-0000-1000-80ff-ff4d3bb07ea0"}
        | {"kfd_id": 40000 + gpu, "node_id": gpu + 4, "partition_id": 0}
        for gpu, bdf in enumerate(addresses)
    ]


def monitor(rows: list[dict[str, Any]], *, xcp: bool) -> list[dict[str, Any]]:
    """``amd-smi monitor -p -t -u -m -v``; ``xcp`` from ROCm 6.4 on."""
    return [
        {
            "gpu": gpu,
            **({"xcp": 0} if xcp else {}),
            "power_usage": unit(row["power"], "W"),
            "max_power": unit(row["cap"], "W"),
            "hotspot_temperature": unit(row["hot"], "C"),
            "memory_temperature": unit(row["mem_t"], "C"),
            "gfx_clk": unit(row["clk"], "MHz"),
            "gfx": unit(row["busy"], "%"),
            "mem": unit(row["mem"], "%"),
            "mem_clock": unit(row["mclk"], "MHz"),
            "vram_used": unit(row["used"], "MB"),
            "vram_free": unit(row["total"] - row["used"], "MB"),
            "vram_total": unit(row["total"], "MB"),
            "vram_percent": unit(round(row["used"] / row["total"] * 100, 2), "%"),
        }
        for gpu, row in enumerate(rows)
    ]


def metric(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``amd-smi metric -p -t -c -u -m`` of ROCm 6.2 and newer."""
    none = {"clk": NA, "min_clk": NA, "max_clk": NA, "clk_locked": NA, "deep_sleep": NA}
    return [
        {
            "gpu": gpu,
            "usage": {
                "gfx_activity": unit(row["busy"], "%"),
                "umc_activity": unit(row["mem"], "%"),
                "mm_activity": NA,
                "vcn_activity": [NA, NA, NA, NA],
            },
            "power": {
                "socket_power": unit(row["power"], "W"),
                "gfx_voltage": NA,
                "soc_voltage": NA,
                "mem_voltage": NA,
                "throttle_status": "UNTHROTTLED",
                "power_management": "ENABLED",
            },
            "clock": {
                "gfx_0": {**none, "clk": unit(row["clk"], "MHz"), "deep_sleep": "DISABLED"},
                "gfx_1": none,
                "mem_0": {**none, "clk": unit(row["mclk"], "MHz")},
            },
            "temperature": {"edge": NA, "hotspot": unit(row["hot"], "C"), "mem": unit(row["mem_t"], "C")},
            "mem_usage": {
                "total_vram": unit(row["total"], "MB"),
                "used_vram": unit(row["used"], "MB"),
                "free_vram": unit(row["total"] - row["used"], "MB"),
            },
        }
        for gpu, row in enumerate(rows)
    ]


def old_metric(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same of ROCm 5.7: numbers without units, memory in ``fb_usage``, clocks as ``cur_clk``."""
    return [
        {
            "gpu": gpu,
            "usage": {"gfx_activity": row["busy"], "umc_activity": row["mem"], "mm_activity": 0},
            "fb_usage": {"vram_total": row["total"], "vram_used": row["used"]},
            "power": {
                "average_socket_power": row["power"],
                "gfx_voltage": 793,
                "soc_voltage": "AMDSMI_STATUS_NOT_YET_IMPLEMENTED - Feature not yet implemented",
            },
            "clock": {"gfx": {"cur_clk": row["clk"], "min_clk": 500, "max_clk": 1700}},
            "temperature": {"edge": row["hot"] - 4, "hotspot": row["hot"], "mem": row["mem_t"]},
        }
        for gpu, row in enumerate(rows)
    ]


def old_texts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Texts with units, as the first ``monitor`` gave them."""
    return [
        {
            "gpu": gpu,
            "power_usage": f"{row['power']} W" if row["power"] != NA else NA,
            "hotspot_temperature": f"{row['hot']} °C",
            "memory_temperature": f"{row['mem_t']} °C",
            "gfx_util": f"{row['busy']} %",
            "gfx_clock": f"{row['clk']} MHz",
            "mem_util": f"{row['mem']} %",
            "vram_used": f"{row['used']} MB",
            "vram_total": f"{row['total']} MB",
        }
        for gpu, row in enumerate(rows)
    ]


def rocm_smi(
    rows: list[dict[str, Any]], addresses: list[str], power_key: str, *, edge: bool
) -> dict[str, Any]:
    """``rocm-smi --showpower --showtemp --showclocks --showuse --showmeminfo vram --showbus``."""
    cards = {}
    for gpu, row in enumerate(rows):
        power = {power_key: f"{row['power']:.1f}"}
        if row["power"] in (0, NA):
            power = {"Average Graphics Package Power (W)": "N/A (Secondary die)"}
        cards[f"card{gpu}"] = {
            **({"Temperature (Sensor edge) (C)": f"{row['hot'] - 4:.1f}"} if edge else {}),
            "Temperature (Sensor junction) (C)": f"{row['hot']:.1f}",
            "Temperature (Sensor memory) (C)": f"{row['mem_t']:.1f}",
            "fclk clock speed:": "(1600Mhz)",
            "fclk clock level:": "0",
            "mclk clock speed:": f"({row['mclk']}Mhz)",
            "mclk clock level:": "3",
            "sclk clock speed:": f"({row['clk']}Mhz)",
            "sclk clock level:": "1",
            **power,
            "GPU use (%)": str(row["busy"]),
            "GFX Activity": "1141796410",
            "PCI Bus": addresses[gpu].upper(),
            "VRAM Total Memory (B)": str(row["total"] << 20),
            "VRAM Total Used Memory (B)": str(row["used"] << 20),
        }
    return {**cards, "system": {"Driver version": "6.12.12"}}


def gcd(power: object, busy: int, used: int, hot: int = 44) -> dict[str, Any]:
    cap = 560 if power not in (0, NA) else 0
    return {"power": power, "cap": cap, "hot": hot, "mem_t": hot + 6, "clk": 1700 if busy else 800} | {
        "busy": busy,
        "mem": busy // 4,
        "mclk": 1600,
        "used": used,
        "total": 65520,
    }


def mi300x(power: object, busy: object, used: int) -> dict[str, Any]:
    return {"power": power, "cap": 750, "hot": 61, "mem_t": 52, "clk": 2104, "busy": busy, "mem": 61} | {
        "mclk": 900,
        "used": used,
        "total": 196592,
    }


# Two packages: power on the first die of each; the second die says 0 in amd-smi, "Secondary die" in rocm-smi.
MI250X = [gcd(237, 97, 9216, 66), gcd(0, 96, 9100, 64), gcd(92, 0, 10), gcd(0, 0, 10)]
MI300X = [mi300x(612, 94, 17153), mi300x(141, 0, 284), mi300x(NA, NA, 283), mi300x(139, 0, 283)]


def write(name: str, data: object, before: str = "") -> None:
    (HERE / name).write_text(before + json.dumps(data, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    mi250x_addresses = [mi250x_address(number) for number in range(4)]
    mi300x_addresses = [mi300x_address(number) for number in range(4)]
    warning = "WARNING: User is missing the following required groups: render\n[a hint in brackets]\n"
    write("amd-smi-list-mi250x.json", listing(mi250x_addresses))
    write("amd-smi-list-mi300x.json", listing(mi300x_addresses))
    write("amd-smi-monitor-mi250x-6.2.json", monitor(MI250X, xcp=False))
    write("amd-smi-monitor-mi300x-7.2.json", monitor(MI300X, xcp=True), warning)
    write("amd-smi-metric-mi250x-6.2.json", metric(MI250X))
    write("amd-smi-metric-mi250x-5.7.json", old_metric(MI250X))
    write("amd-smi-metric-mi300x-7.2.json", {"gpu_data": metric(MI300X)})
    write("amd-smi-monitor-texts.json", old_texts(MI250X))
    average, current = "Average Graphics Package Power (W)", "Current Socket Graphics Package Power (W)"
    write("rocm-smi-mi250x-7.0.json", rocm_smi(MI250X, mi250x_addresses, average, edge=True))
    told = [row for row in MI300X if row["power"] != NA]
    write("rocm-smi-mi300x-7.0.json", rocm_smi(told, mi300x_addresses, current, edge=False))


if __name__ == "__main__":
    main()

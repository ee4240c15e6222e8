"""Recorded hosts for the tests of the doctor: the ones in ``tests/data/hosts``, and variants of them.

``python -m tests.unit.doctor_hosts`` writes the folders anew. They are made by hand after the layout that
Linux, ROCm and conda use: no machine was copied.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.unit.elf_files import Library, build

HOSTS = Path(__file__).resolve().parents[1] / "data" / "hosts"
VARIANTS = HOSTS / "variants.toml"


@dataclass(frozen=True)
class Link:
    target: str


@dataclass
class Host:
    """Files by path (text, bytes or link; None is a folder), and what goes into ``host.json``."""

    files: dict[str, str | bytes | Link | None] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        for path, content in sorted(self.files.items()):
            place = folder / "root" / path.lstrip("/")
            if content is None:
                (place / ".keep").parent.mkdir(parents=True, exist_ok=True)
                (place / ".keep").touch()
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Link):
                place.symlink_to(content.target)
            else:
                place.write_bytes(content if isinstance(content, bytes) else content.encode())
        text = json.dumps(self.record, indent=1, sort_keys=True)
        (folder / "host.json").write_text(text + "\n", encoding="utf-8")
        return folder


# --- the kernel's view of a GPU --------------------------------------------------------------------


@dataclass(frozen=True)
class Card:
    """Numbers of one kind of GPU: gfx_target_version, SIMDs in all and in a compute unit, PCI device id."""

    version: int
    simds: int
    simds_a_unit: int
    device: int
    xcc: int = 1
    wave: int = 64


MI250X = Card(90010, 440, 4, 0x7408)
MI100 = Card(90008, 480, 4, 0x738C)
MI300X = Card(90402, 1216, 4, 0x74A1, xcc=8)
RADEON_780M = Card(110003, 24, 2, 0x15BF, wave=32)
RX_7700S = Card(110002, 64, 2, 0x7480, wave=32)


def gpu_node(card: Card, render: int) -> str:
    """``properties`` of a GPU node, in the kernel's order of keys."""
    values = {
        "cpu_cores_count": 0,
        "simd_count": card.simds,
        "mem_banks_count": 1,
        "caches_count": 206,
        "io_links_count": 8,
        "p2p_links_count": 0,
        "cpu_core_id_base": 0,
        "simd_id_base": 2147487744,
        "max_waves_per_simd": 8 if card.wave == 64 else 16,
        "lds_size_in_kb": 64,
        "gds_size_in_kb": 0,
        "num_gws": 64,
        "wave_front_size": card.wave,
        "array_count": 8 * card.xcc,
        "simd_arrays_per_engine": 1,
        "cu_per_simd_array": 16,
        "simd_per_cu": card.simds_a_unit,
        "max_slots_scratch_cu": 32,
        "gfx_target_version": card.version,
        "vendor_id": 4098,
        "device_id": card.device,
        "location_id": 256 * (render - 127),
        "domain": 0,
        "drm_render_minor": render,
        "hive_id": 0,
        "num_sdma_engines": 2,
        "num_sdma_xgmi_engines": 0,
        "num_sdma_queues_per_engine": 8,
        "num_cp_queues": 24,
        "max_engine_clk_fcompute": 2100,
        "local_mem_size": 0,
        "fw_version": 150,
        "capability": 1746706048,
        "debug_prop": 1511,
        "sdma_fw_version": 24,
        "unique_id": 1000000 + render,
        "num_xcc": card.xcc,
        "max_engine_clk_ccompute": 3700,
    }
    return "".join(f"{key} {value}\n" for key, value in values.items())


def cpu_node(cores: int) -> str:
    zeros = ("simd_count", "gfx_target_version", "simd_per_cu", "vendor_id", "device_id", "drm_render_minor")
    return f"cpu_cores_count {cores}\n" + "".join(f"{key} 0\n" for key in zeros)


def with_gpus(host: Host, cards: list[Card], *, cpus: list[int], render_gid: int) -> None:
    """KFD nodes, DRM cards and device nodes: ``/dev/kfd`` and a render node a GPU."""
    nodes = [cpu_node(cores) for cores in cpus]
    nodes += [gpu_node(card, 128 + index) for index, card in enumerate(cards)]
    for index, text in enumerate(nodes):
        host.files[f"/sys/class/kfd/kfd/topology/nodes/{index}/properties"] = text
    devices = host.record.setdefault("devices", {})
    devices["/dev/kfd"] = {"mode": "660", "uid": 0, "gid": render_gid}
    for index, card in enumerate(cards):
        host.files[f"/sys/class/drm/card{index}/device/vendor"] = "0x1002\n"
        host.files[f"/sys/class/drm/card{index}/device/device"] = f"{card.device:#06x}\n"
        devices[f"/dev/dri/renderD{128 + index}"] = {"mode": "660", "uid": 0, "gid": render_gid}
        devices[f"/dev/dri/card{index}"] = {"mode": "660", "uid": 0, "gid": 44}


# --- parts of hosts --------------------------------------------------------------------------------


def base_system(
    *, name: str, memory_gib: int, cpus: int, numa: int, render_gid: int, groups: list[int]
) -> Host:
    """An Ubuntu or Debian as any user sees it."""
    host = Host()
    files = host.files
    files["/etc/os-release"] = f'PRETTY_NAME="{name}"\n'
    files["/etc/group"] = f"root:x:0:\nvideo:x:44:lena\nrender:x:{render_gid}:lena\nlena:x:1000:\n"
    files["/etc/passwd"] = "root:x:0:0::/root:/bin/bash\nlena:x:1000:1000::/home/lena:/bin/bash\n"
    total = memory_gib << 20
    files["/proc/meminfo"] = (
        f"MemTotal: {total} kB\nMemFree: {total // 2} kB\nMemAvailable: {total * 9 // 10} kB\n"
    )
    files["/proc/version"] = "Linux version 6.8.0-90-generic (gcc 13.3.0) #91-Ubuntu SMP\n"
    files["/proc/sys/kernel/osrelease"] = "6.8.0-90-generic\n"
    files["/proc/self/status"] = (
        "Name:\trocm-channel\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\n"
        f"Groups:\t{' '.join(map(str, groups))} \nCpus_allowed_list:\t0-{cpus - 1}\n"
    )
    files["/proc/self/limits"] = limits_text()
    files["/proc/self/cgroup"] = "0::/user.slice/user-1000.slice/session-4.scope\n"
    files["/proc/self/mounts"] = (
        "/dev/nvme0n1p2 / ext4 rw,relatime 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n"
        "/dev/nvme1n1 /home xfs rw,relatime 0 0\n"
    )
    files["/sys/fs/cgroup/user.slice/memory.max"] = "max\n"
    files["/sys/kernel/mm/transparent_hugepage/enabled"] = "always [madvise] never\n"
    files["/proc/sys/kernel/numa_balancing"] = "0\n"
    for node in range(numa):
        files[f"/sys/devices/system/node/node{node}/cpulist"] = "0\n"
    for folder in ("/tmp", "/dev/shm", "/home/lena/project"):
        files[folder] = None
    host.record |= {
        "environ": {
            "HOME": "/home/lena",
            "USER": "lena",
            "LANG": "en_US.UTF-8",
            "PATH": "/home/lena/.pixi/bin:/usr/local/bin:/usr/bin:/bin",
            "PWD": "/home/lena/project",
        },
        "space": {
            "/": {"total_mib": 900_000, "free_mib": 400_000},
            "/home": {"total_mib": 7_000_000, "free_mib": 3_000_000},
            "/dev/shm": {"total_mib": memory_gib << 9, "free_mib": memory_gib << 9},
        },
        "now": "2026-11-30T12:00:00Z",
        "modified": {"/etc/passwd": "2026-03-01T08:00:00Z", "/home/lena/project": "2026-11-29T17:00:00Z"},
        "programs": {},
    }
    return host


def limits_text(**changes: str) -> str:
    """``/proc/self/limits``; changes by name without spaces, as ``open_files``."""
    values = {
        "cpu_time": "unlimited",
        "file_size": "unlimited",
        "data_size": "unlimited",
        "stack_size": "8388608",
        "processes": "1030000",
        "open_files": "65536",
        "locked_memory": "unlimited",
        "address_space": "unlimited",
    } | changes
    rows = [f"{'Limit':<26}{'Soft Limit':<21}{'Hard Limit':<21}Units"]
    rows += [
        f"{'Max ' + name.replace('_', ' '):<26}{value:<21}{'unlimited':<21}units"
        for name, value in values.items()
    ]
    return "\n".join(rows) + "\n"


def with_gcc(host: Host, *versions: str, distribution: str) -> None:
    """GCCs with their C++ headers; the first is the one without a number, the newest brings libstdc++."""
    programs = host.record["programs"]
    for version in versions:
        major = version.partition(".")[0]
        folder = f"/usr/lib/gcc/x86_64-linux-gnu/{major}"
        host.files |= {
            f"/usr/bin/gcc-{major}": "",
            f"/usr/bin/g++-{major}": "",
            f"{folder}/crtbegin.o": "",
            f"/usr/include/c++/{major}/cstddef": "",
        }
        plain = ["", f"-{major}"] if version == versions[0] else [f"-{major}"]
        for name in ("gcc", "g++"):
            for suffix in plain:
                programs[f"/usr/bin/{name}{suffix} --version"] = {
                    "text": f"{name}{suffix} ({distribution}) {version}\nFree Software\n"
                }
    first = versions[0].partition(".")[0]
    host.files["/usr/bin/gcc"] = Link(f"gcc-{first}")
    host.files["/usr/bin/g++"] = Link(f"g++-{first}")
    newest = max(int(version.partition(".")[0]) for version in versions)
    level = {11: 30, 12: 30, 13: 33, 14: 33}[newest]
    host.files[f"/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.{level}"] = ""
    host.files["/usr/lib/x86_64-linux-gnu/libstdc++.so.6"] = Link(f"libstdc++.so.6.0.{level}")


CPUS_OF_CLANG = (
    "Available CPUs for this target:\n\n\tgfx906\n\tgfx908\n\tgfx90a\n\tgfx942\n\tgfx950\n\tgfx1100\n"
)


def with_rocm(host: Host, release: str, *, clang: int, smi: str, gcc: str) -> None:
    """ROCm in ``/opt/rocm-RELEASE``, linked from ``/opt/rocm``."""
    root = f"/opt/rocm-{release.partition('-')[0]}"
    major = release.partition(".")[0]
    needs = {"libstdc++.so.6": ["GLIBCXX_3.4", "GLIBCXX_3.4.30"], "libc.so.6": ["GLIBC_2.34"]}
    hip = build(Library(soname=f"libamdhip64.so.{major}", needed=list(needs), needs=needs))
    hsa = build(Library(soname="libhsa-runtime64.so.1", needed=list(needs), needs=needs))
    host.files |= {
        "/opt/rocm": Link(root),
        f"{root}/.info/version": f"{release}\n",
        f"{root}/include/hip/hip_version.h": "#define HIP_VERSION_MAJOR 7\n",
        f"{root}/lib/libamdhip64.so": Link(f"libamdhip64.so.{major}"),
        f"{root}/lib/libamdhip64.so.{major}": hip,
        f"{root}/lib/libhsa-runtime64.so.1": hsa,
        f"{root}/lib/libamd_smi.so.{smi}": "",
        f"{root}/amdgcn/bitcode/oclc_isa_version_90a.bc": "",
        f"{root}/amdgcn/bitcode/oclc_isa_version_942.bc": "",
        f"{root}/bin/hipcc": "",
        f"{root}/lib/llvm/bin/clang++": "",
    }
    clangs = "/opt/rocm/lib/llvm/bin/clang++"
    host.record["programs"] |= {
        f"{clangs} --version": {
            "text": f"AMD clang version {clang}.0.0git (roc-{release})\nTarget: x86_64\n"
        },
        f"{clangs} -v": {
            "text": f"Found candidate GCC installation: {gcc}\nSelected GCC installation: {gcc}\n"
        },
        f"{clangs} --target=amdgcn -print-supported-cpus": {"text": CPUS_OF_CLANG},
    }


def with_environment(host: Host, prefix: str, *, arch: str, rocm: str, torch: str, vllm: str) -> None:
    """An environment of this channel's packages, active in the shell."""
    short = f"rocm{rocm.replace('.', '')}_{arch}_py312_h0123456_0"
    packages = {
        "amdgpu-arch": ("9.4.2" if arch == "gfx942" else "9.0.10", f"{arch}_detected_0"),
        "rocm-userspace": (rocm, "system_detected_0"),
        "pytorch-rocm": (torch, short),
        "triton-rocm": ("3.6.0", short),
        "vllm-rocm": (vllm, short),
        "amdsmi": (rocm, f"rocm{rocm.replace('.', '')}_py312_h0123456_0"),
        "python": ("3.12.11", "h9e4cc4f_0_cpython"),
        "libstdcxx": ("15.2.0", "h934c35e_7"),
        "py-rattler": ("0.28.0", "py310h045cca9_0"),
    }
    for name, (version, text) in packages.items():
        record = {"name": name, "version": version, "build": text, "depends": []}
        host.files[f"{prefix}/conda-meta/{name}-{version}-{text}.json"] = json.dumps(record) + "\n"
    site = f"{prefix}/lib/python3.12/site-packages"
    for name, version in (("triton", "3.6.0"), ("torch", torch), ("amdsmi", rocm), ("py_rattler", "0.28.0")):
        host.files[f"{site}/{name}-{version}.dist-info/METADATA"] = f"Name: {name}\nVersion: {version}\n"
    host.files |= {
        f"{prefix}/lib/libstdc++.so.6.0.34": "",
        f"{prefix}/lib/libstdc++.so.6": Link("libstdc++.so.6.0.34"),
        f"{prefix}/lib/rocm-host": Link("/opt/rocm/lib"),
        f"{prefix}/bin/python": "",
    }
    host.record["environ"]["CONDA_PREFIX"] = prefix
    host.record["programs"] |= {
        f"{prefix}/bin/python --version": {"text": "Python 3.12.11\n"},
        f"{prefix}/bin/python -B -c import amdsmi": {"text": ""},
    }


def with_pixi(host: Host, version: str) -> None:
    host.files["/home/lena/.pixi/bin/pixi"] = ""
    host.record["programs"]["/home/lena/.pixi/bin/pixi --version"] = {"text": f"pixi {version}\n"}


def with_conda(host: Host, **packages: str) -> None:
    """A conda installation; its packages by name, ``_`` for ``-``."""
    base = "/home/lena/miniforge3"
    for name, version in packages.items():
        name = name.replace("_", "-")
        record = {"name": name, "version": version, "build": "py312_0", "depends": []}
        host.files[f"{base}/conda-meta/{name}-{version}-py312_0.json"] = json.dumps(record) + "\n"
    host.files[f"{base}/bin/conda"] = ""
    host.record["environ"]["CONDA_EXE"] = f"{base}/bin/conda"


def with_python(host: Host, version: str) -> None:
    host.files["/usr/bin/python3"] = ""
    host.record["programs"]["/usr/bin/python3 --version"] = {"text": f"Python {version}\n"}


# --- the hosts -------------------------------------------------------------------------------------


def mi250x_node() -> Host:
    host = base_system(
        name="Ubuntu 22.04.5 LTS", memory_gib=512, cpus=128, numa=4, render_gid=110, groups=[44, 110, 1000]
    )
    with_gpus(host, [MI250X] * 8, cpus=[16] * 4, render_gid=110)
    host.files["/sys/module/amdgpu/version"] = "6.14.14\n"
    host.files["/sys/module/amdgpu/parameters/noretry"] = "-1\n"
    with_gcc(host, "11.4.0", distribution="Ubuntu 11.4.0-1ubuntu1~22.04.2")
    with_rocm(host, "7.0.2-56", clang=20, smi="26.0.2", gcc="/usr/lib/gcc/x86_64-linux-gnu/11")
    with_python(host, "3.10.12")
    with_pixi(host, "0.84.2")
    host.files["/usr/bin/ccache"] = ""
    with_environment(host, "/home/lena/envs/vllm", arch="gfx90a", rocm="7.0", torch="2.9.1", vllm="0.16.0")
    return host


def mi300x_node() -> Host:
    host = base_system(
        name="Ubuntu 24.04.3 LTS", memory_gib=2048, cpus=192, numa=2, render_gid=993, groups=[44, 993, 1000]
    )
    with_gpus(host, [MI300X] * 8, cpus=[96] * 2, render_gid=993)
    host.files["/sys/module/amdgpu/version"] = "6.16.13\n"
    host.files["/sys/module/amdgpu/parameters/noretry"] = "-1\n"
    with_gcc(host, "13.3.0", "11.5.0", distribution="Ubuntu 13.3.0-6ubuntu2~24.04")
    with_rocm(host, "7.2.3-90", clang=22, smi="26.2.2", gcc="/usr/lib/gcc/x86_64-linux-gnu/13")
    with_python(host, "3.12.3")
    with_pixi(host, "0.84.2")
    with_conda(host, conda="26.1.1", conda_build="26.7.1", boa="0.17.0", python="3.12.11")
    host.files["/usr/bin/ccache"] = ""
    with_environment(host, "/home/lena/envs/vllm", arch="gfx942", rocm="7.2", torch="2.11.0", vllm="0.26.0")
    return host


def laptop() -> Host:
    host = base_system(
        name="Ubuntu 24.04.3 LTS", memory_gib=32, cpus=16, numa=1, render_gid=992, groups=[1000]
    )
    with_gpus(host, [RADEON_780M], cpus=[16], render_gid=992)
    host.files["/sys/module/amdgpu/parameters/noretry"] = "-1\n"
    host.files["/proc/sys/kernel/osrelease"] = "6.14.0-35-generic\n"
    with_gcc(host, "13.3.0", distribution="Ubuntu 13.3.0-6ubuntu2~24.04")
    with_python(host, "3.12.3")
    with_conda(host, conda="25.11.0", python="3.13.9")
    host.record["space"] = {
        "/": {"total_mib": 480_000, "free_mib": 60_000},
        "/dev/shm": {"total_mib": 15_800, "free_mib": 15_000},
    }
    return host


def container() -> Host:
    host = base_system(name="Debian GNU/Linux 12", memory_gib=64, cpus=8, numa=1, render_gid=105, groups=[])
    host.files["/.dockerenv"] = ""
    host.files["/etc/group"] = "root:x:0:\nvideo:x:44:\n"
    host.files["/proc/self/status"] = (
        "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t0 \nCpus_allowed_list:\t0-7\n"
    )
    host.files["/proc/self/cgroup"] = "0::/\n"
    host.files["/sys/fs/cgroup/memory.max"] = f"{16 << 30}\n"
    host.files["/proc/self/mounts"] = (
        "overlay / overlay rw,relatime 0 0\nshm /dev/shm tmpfs rw,nosuid,nodev,noexec 0 0\n"
    )
    host.record |= {
        "environ": {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root", "PWD": "/"},
        "space": {
            "/": {"total_mib": 400_000, "free_mib": 250_000},
            "/dev/shm": {"total_mib": 64, "free_mib": 64},
        },
        "modified": {},
    }
    return host


def wsl() -> Host:
    host = base_system(
        name="Ubuntu 24.04.3 LTS", memory_gib=32, cpus=24, numa=1, render_gid=992, groups=[1000]
    )
    version = "6.6.87.2-microsoft-standard-WSL2"
    host.files["/proc/version"] = f"Linux version {version} (root@builder) (gcc 11.2.0) #1 SMP\n"
    host.files["/proc/sys/kernel/osrelease"] = f"{version}\n"
    host.files["/usr/lib/wsl/lib/libdxcore.so"] = ""
    host.record["devices"] = {"/dev/dxg": {"mode": "666", "uid": 0, "gid": 0}}
    with_gcc(host, "13.3.0", "11.5.0", distribution="Ubuntu 13.3.0-6ubuntu2~24.04")
    with_rocm(host, "7.2.1-81", clang=22, smi="26.2.1", gcc="/usr/lib/gcc/x86_64-linux-gnu/13")
    with_python(host, "3.12.3")
    return host


def server() -> Host:
    host = base_system(
        name="Debian GNU/Linux 12", memory_gib=256, cpus=64, numa=2, render_gid=105, groups=[1000]
    )
    host.files["/proc/sys/kernel/numa_balancing"] = "1\n"
    with_gcc(host, "12.2.0", "11.3.0", distribution="Debian 12.2.0-14+deb12u1")
    with_python(host, "3.11.2")
    host.files["/usr/bin/clang++-19"] = ""
    host.record["programs"] |= {
        "/usr/bin/clang++-19 --version": {"text": "Debian clang version 19.1.7 (3+b1)\nTarget: x86_64\n"},
        "/usr/bin/clang++-19 --target=amdgcn -print-supported-cpus": {"text": CPUS_OF_CLANG},
    }
    return host


BASES = {
    "mi250x-node": mi250x_node,
    "mi300x-node": mi300x_node,
    "laptop": laptop,
    "container": container,
    "wsl": wsl,
    "server": server,
}


# --- variants --------------------------------------------------------------------------------------


@cache
def variants() -> dict[str, dict[str, Any]]:
    """``variants.toml``: each names its base, what differs from it, and what checks must say."""
    return tomllib.loads(VARIANTS.read_text(encoding="utf-8"))


def make(name: str, folder: Path) -> Path:
    """Write the recorded host of that name, which is a base or a variant, below ``folder``."""
    change: Mapping[str, Any] = variants().get(name, {})
    host = BASES[change.get("base", name)]()
    if "gpus" in change:
        cards = [
            {"780m": RADEON_780M, "7700s": RX_7700S, "mi100": MI100, "mi250x": MI250X, "mi300x": MI300X}[one]
            for one in change["gpus"]
        ]
        host.files = {path: text for path, text in host.files.items() if "/kfd/topology/" not in path}
        with_gpus(host, cards, cpus=[16], render_gid=host.record["devices"]["/dev/kfd"]["gid"])
    for path in change.get("removed", ()):
        host.files = {one: text for one, text in host.files.items() if not (one + "/").startswith(path + "/")}
        host.record.get("devices", {}).pop(path, None)
    for path, target in change.get("links", {}).items():
        host.files[path] = Link(target)
    host.files |= change.get("files", {})
    if "limits" in change:
        host.files["/proc/self/limits"] = limits_text(**change["limits"])
    for path, versions in change.get("elf", {}).items():
        host.files[path] = build(Library(needed=["libstdc++.so.6"], needs={"libstdc++.so.6": versions}))
    for key in ("environ", "devices", "space", "modified"):
        if key in change:
            host.record.setdefault(key, {}).update(change[key])
    for key in change.get("unset", ()):
        host.record["environ"].pop(key, None)
    for command, text in change.get("programs", {}).items():
        host.record["programs"][command] = {"text": text, "status": int("Error" in text)}
    if "now" in change:
        host.record["now"] = change["now"]
    return host.write(folder / name)


def main() -> None:
    for name, make_host in BASES.items():
        if (HOSTS / name).exists():
            shutil.rmtree(HOSTS / name)
        (HOSTS / name).mkdir(parents=True)
        make_host().write(HOSTS / name)


if __name__ == "__main__":
    main()

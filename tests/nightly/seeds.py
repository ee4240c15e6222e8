"""Sound files and packages of every format, to be damaged."""

from __future__ import annotations

import gzip
import io
import lzma
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import zstandard

from tests.integration.clang_hip import ARCHS, LINK, SHARED, compile_hip, offload, run, write_source
from tests.integration.sample_files import triton_like
from tests.unit.test_verify_formats import aks2, kpack, offload_binary
from tests.unit.test_verify_support import (
    DATA,
    archive,
    bundle,
    code_object,
    compressed,
    conda_info,
    device_id,
    host_library,
    tar_bytes,
    target_bundle,
    with_flags,
    write_conda,
    write_tar_bz2,
    write_wheel,
)

_TOOLS: Final = ("clang++-19", "clang-offload-packager-19", "g++", "llvm-ar-19", "ld.lld-19", "ar")


@dataclass(frozen=True)
class Seed:
    """One sound file. ``container`` is true for packages and archives of files."""

    name: str
    data: bytes
    container: bool = False


def written_seeds() -> list[Seed]:
    """Seeds that need no compiler: the sample files, and what the tests put together byte by byte."""
    gfx942, gfx90a = code_object("gfx942"), code_object("gfx90a")
    rdc: Mapping[str, Any] = {".hip_gpubin_handle": bytes(8)}
    data: Mapping[str, Any] = {".rodata": b"\1" * 33 + gfx942 + b"\1" * 5 + gfx90a}
    feature = "gfx942:sramecc+:xnack-"
    files = {
        "libx.so": host_library(target_bundle("gfx90a"), target_bundle("gfx942")),
        "librdc.so": host_library(target_bundle("gfx942"), wrapper_count=3, **rdc),
        "libdata.so": host_library(target_bundle("gfx942"), **data),
        "libx.a": archive({"a.o": host_library(target_bundle("gfx942")), "b.o": target_bundle("gfx90a")}),
        "feature.co": bundle(
            [(device_id(feature), with_flags(gfx942, 0xE4C)), (device_id("gfx90a"), gfx90a)]
        ),
        "both.hipfb": target_bundle("gfx90a", "gfx942"),
        "two.hipfb": compressed(target_bundle("gfx90a"))
        + bytes(100)
        + compressed(target_bundle("gfx942"), 3),
        "bare.hsaco": gfx942,
        "x.aks2": aks2(gfx942, b"", gfx90a),
        "plain.kpack": kpack("none", ("gfx90a", gfx90a), ("gfx942", gfx942)),
        "packed.kpack": kpack("zstd-per-kernel", ("gfx90a", gfx90a), ("gfx942", gfx942)),
        **{f"offload{n}.bin": offload_binary(n, "gfx942", gfx942) for n in (1, 2, 3)},
        "offload_packed.bin": offload_binary(3, "gfx942", gfx942, packed=True),
    }
    samples = [
        path for path in sorted(DATA.iterdir()) if path.suffix != ".md" and not path.name.startswith("bad_")
    ]
    return [
        *(Seed(name, content) for name, content in files.items()),
        *(Seed(path.name, path.read_bytes()) for path in samples),
    ]


def compiled_seeds() -> list[Seed]:
    """What the compilers of this machine make; nothing where they are not all there."""
    if not all(map(shutil.which, _TOOLS)):
        return []
    with tempfile.TemporaryDirectory() as scratch:
        work, folder = Path(scratch), Path(scratch, "out")
        folder.mkdir()
        source = write_source(work)
        both = offload(*ARCHS)
        compile_hip(source, folder / "mini.so", *SHARED, *both)
        compile_hip(source, folder / "mini_packed.so", *SHARED, "--offload-compress", *both)
        compile_hip(source, folder / "rdc.o", "-c", "-fgpu-rdc", *both)
        compile_hip(source, folder / "new.o", "-c", "--offload-new-driver", "-fgpu-rdc", *both)
        compile_hip(source, work / "two.o", "-c", "-frecord-command-line", *both, kernel="two")
        run(*LINK, "-fgpu-rdc", *both, folder / "rdc.o", "-o", folder / "rdc.so")
        triton_like(folder / "add.hsaco", "gfx942")
        (work / "host.cpp").write_text(
            "#include <string>\nstd::string f(int n) { return std::to_string(n); }\n"
        )
        flags = (
            "-shared",
            "-fPIC",
            "-O3",
            "-g",
            "-frecord-gcc-switches",
            "-Wl,-rpath,/home/builder/build:$ORIGIN/..",
        )
        run("g++", *flags, work / "host.cpp", work / "two.o", "-o", folder / "host.so")
        run("ar", "rcs", folder / "libmade.a", folder / "rdc.o", folder / "new.o", work / "two.o")
        run("llvm-ar-19", "rcsT", folder / "libthin.a", folder / "rdc.o")
        return [Seed(path.name, path.read_bytes()) for path in sorted(folder.iterdir())]


def container_seeds(files: list[Seed]) -> list[Seed]:
    """Packages and archives of a few small files, one of each kind."""
    names = ("libx.so", "libx.a", "bare.hsaco", "two.hipfb", "x.aks2", "plain.kpack")
    content = {f"lib/{seed.name}": seed.data for seed in files if seed.name in names}
    content["lib/notes.txt"] = b"text\n" * 100
    info = conda_info(["gfx90a", "gfx942"])
    plain = tar_bytes(content)

    def written(make: Callable[[Path], Path], name: str) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            return make(Path(folder, name)).read_bytes()

    wheel = written(lambda path: write_wheel(path, content), "x.whl")
    conda = written(lambda path: write_conda(path, content, info), "x.conda")
    made: Mapping[str, bytes] = {
        "x.conda": conda,
        "x.tar.bz2": written(lambda path: write_tar_bz2(path, content, info), "x.tar.bz2"),
        "x.whl": wheel,
        "x.tar": plain,
        "pax.tar": _pax(content),
        "x.tar.gz": gzip.compress(plain),
        "x.tar.xz": lzma.compress(plain),
        "x.tar.zst": zstandard.compress(plain),
        "nested.conda": written(lambda path: write_conda(path, {"share/x.whl": wheel}, info), "x.conda"),
        "nested.tar.zst": zstandard.compress(tar_bytes({"x.conda": conda, "x.tar.gz": gzip.compress(plain)})),
    }
    return [Seed(name, data, container=True) for name, data in made.items()]


def _pax(content: Mapping[str, bytes]) -> bytes:
    """A tar file with extended headers and long names."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as made:
        for name, data in content.items():
            info = tarfile.TarInfo(f"{'a' * 120}/{name}")
            info.size = len(data)
            info.pax_headers = {"comment": "x" * 300, "mtime": "1.5"}
            made.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("lib/link.so")
        link.type, link.linkname = tarfile.SYMTYPE, "libx.so"
        made.addfile(link)
    return buffer.getvalue()

"""The three build engines: rattler-build in a process of ours, conda-build and boa as a person types them.

What each accepts is narrower than its manual says: boa builds only the first recipe argument and ignores
``--override-channels``; conda-build's recipe.yaml path refuses ``--variants``; a subset file with one key
selects a part of the matrix, zipped keys included.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from channel_tools.build.job import Job
from channel_tools.build.nodes import Node
from channel_tools.build.toolchain import Toolchain
from channel_tools.channel.folder import FolderChannel
from channel_tools.channel.layout import combined_label
from channel_tools.model.errors import ToolMissingError
from channel_tools.model.files import write_text_whole
from channel_tools.model.project import Project
from channel_tools.sources.store import Store

ENGINES = ("rattler", "conda-build", "mambabuild")
_PROGRAMS = {"conda-build": ["conda", "build"], "mambabuild": ["conda", "mambabuild"]}


@dataclass(frozen=True)
class Settings:
    """How every build of one call runs.

    ``level`` is the zstd level of the packages, ``threads`` compress one; ``cpus`` and ``memory_mib`` are
    one build's share of the host.
    """

    project: Project
    toolchain: Toolchain
    channel: FolderChannel
    engine: str
    level: int
    threads: int
    cpus: int
    memory_mib: int
    test: bool = True


@dataclass(frozen=True)
class Invocation:
    """A program to run: its words, standard input, environment and the folder its package appears below."""

    command: list[str]
    stdin: str | None
    environ: Mapping[str, str]
    output: Path


def channels_for(node: Node, settings: Settings) -> list[str]:
    """Channels of one build, first one strongest: declared packages, the channel itself, build tools."""
    label = combined_label(node.row["rocm_arch"], node.row["rocm_version"])
    own = [settings.channel.label_url(label), settings.channel.url]
    return [url for url in own if url] + list(settings.toolchain.channels)


def check_engine(engine: str) -> None:
    """Make sure that the program of an engine is there.

    :raises ToolMissingError: it is not
    """
    if engine in _PROGRAMS and shutil.which("conda") is None:
        raise ToolMissingError(
            f"the engine {engine} needs conda, which is not on PATH",
            fix="conda env create -f environment-build.yml, activate it, or use --engine rattler",
        )


def invocation(node: Node, settings: Settings, log: Path, *, write: bool = True) -> Invocation:
    """What to run for one build. ``write=False`` only shows it (no variant file is written)."""
    output = settings.project.work / node.stem
    test = settings.test and not node.detected
    environ = {
        **os.environ,
        "ROCM_CHANNEL_CPUS": str(settings.cpus),
        "ROCM_CHANNEL_MEMORY_MIB": str(settings.memory_mib),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    mirror = Store.of(settings.project).mirror_url() if write and "SOURCE_MIRROR" not in environ else None
    if mirror:
        environ["SOURCE_MIRROR"] = mirror
    if settings.toolchain.rocm_path is not None:
        environ["ROCM_PATH"] = str(settings.toolchain.rocm_path.resolve())
    if settings.engine == "rattler":
        job = Job(
            recipe=str(node.recipe),
            variant=dict(node.row),
            stem=node.stem,
            channels=channels_for(node, settings),
            output=str(output),
            log=str(log),
            test=test,
            compression=settings.level,
            threads=settings.threads,
        )
        return Invocation([sys.executable, "-m", "channel_tools.build.job"], job.to_json(), environ, output)
    command = [*_PROGRAMS[settings.engine], str(node.recipe)]
    for file in _variant_files(node, settings, output, write):
        command += ["-m", str(file)]
    if settings.engine == "conda-build":
        command.append("--override-channels")
    for url in channels_for(node, settings):
        command += ["-c", url]
    command += ["--output-folder", str(output), "--package-format", "conda"]
    command += ["--zstd-compression-level", str(settings.level)]
    if not test:
        command.append("--no-test")
    return Invocation(command, None, environ, output)


def _variant_files(node: Node, settings: Settings, output: Path, write: bool) -> list[Path]:
    """Subset files that select a node's variant, or one file with the whole row where none fits."""
    folder = settings.project.matrix_file.parent
    names = {
        "rocm_arch": f"{node.row['rocm_arch']}.yaml",
        "rocm_version": f"rocm-{node.row['rocm_version']}.yaml",
        "selection": f"{node.row['selection']}.yaml",
    }
    used = [names[key] for key in names if key in node.variant or key != "selection"]
    files = [folder / name for name in used]
    if settings.toolchain.kind == "conda" and all(file.is_file() for file in files):
        return files
    file = output.with_name(f"{output.name}.variant.yaml")
    if write:
        lines = [f"{key}:\n  - {json.dumps(value)}" for key, value in node.row.items()]
        write_text_whole(file, "\n".join(lines) + "\n")
    return [file]

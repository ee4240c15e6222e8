"""One preflight from recipe to report."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from channel_tools.build.toolchain import SDK_MARKER
from channel_tools.model.errors import PreflightError
from channel_tools.model.files import copy_whole, storage_errors
from channel_tools.preflight import judge, script, torch
from channel_tools.preflight.configure import Configuration, configure
from channel_tools.preflight.report import Report, summarise
from channel_tools.preflight.request import Request, recipe_settings
from channel_tools.preflight.source import describe, staged_source
from channel_tools.preflight.stand_in import LOAD_HIP, make_rocm_pieces
from channel_tools.preflight.units import read_compile_commands


def run_preflight(request: Request) -> Report:
    """Configure, read, judge. The compile commands are kept in ``logs/preflight``.

    :raises GuardError: a guard of the build script stopped before CMake
    :raises PreflightError: the source, PyTorch's files or the script cannot be had
    """
    started = time.monotonic()
    settings = recipe_settings(request.recipe.name)
    row, package = request.row, request.rendered["package"]
    report = Report(
        package["name"], str(package["version"]), row["rocm_arch"], row["rocm_version"], request.build_type
    )
    sources = request.project.cache / "sources"
    if request.source is None:
        source = staged_source(request.output, request.project)
        report.source = describe(request.output)
    else:
        source = request.source.resolve()
        report.source = str(source)
    if not (source / "CMakeLists.txt").is_file():
        raise PreflightError(
            "there is no CMakeLists.txt", where=source, wanted="a source folder of the recipe"
        )
    with _work_folder(request) as work:
        _configure_and_judge(request, settings, report, source, sources, work)
    report.seconds = time.monotonic() - started
    return report


@contextmanager
def _work_folder(request: Request) -> Iterator[Path]:
    """A folder for one configuration: the one to keep, or one that is removed."""
    if request.keep is not None:
        folder = request.keep.absolute()
        with storage_errors(folder):
            folder.mkdir(parents=True)
        yield folder
        return
    with storage_errors(request.project.work):
        request.project.work.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".preflight.", dir=request.project.work))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _configure_and_judge(
    request: Request, settings: Mapping[str, Any], report: Report, source: Path, sources: Path, work: Path
) -> None:
    row = request.row
    prefix, build, notes, watch = (work / name for name in ("prefix", "_configured", "script", "watch"))
    for folder in (prefix, notes, watch):
        folder.mkdir()
    wanted_torch = row[settings["torch_version"]]
    found = torch.find_torch(request.python)
    if found:
        torch.check_version(found, wanted_torch)
    else:
        found = torch.make_stand_in(wanted_torch, sources, work / "site", row["rocm_version"])
    pieces = make_rocm_pieces(found.cmake / LOAD_HIP, request.rocm, prefix, row["rocm_version"])
    environment = script.engine_environment(
        request.rendered,
        recipe=request.recipe,
        source=source,
        prefix=prefix,
        python=request.python,
        build_type=request.build_type,
    )
    environment["ROCM_PATH"] = str(request.rocm)
    environment |= script.compilers(row["cxx_compiler_version"], request.project.cache)
    kernels = settings["kernels"]
    stands_in = [f"PyTorch {found.version} (its own build files)"] if found.stands_in else []
    if pieces.names:
        stands_in.append(f"CMake packages of ROCm ({', '.join(pieces.names)})")
    if not (source / kernels["folder"]).is_dir():
        stands_in.append(f"the source of {kernels['folder'].rpartition('/')[2]}")
        environment["TRITON_KERNELS_SRC_DIR"] = str(_make_files(work / "kernels", kernels["files"]))
    if (request.rocm / SDK_MARKER).is_file():
        stands_in.append("ROCm's compiler and HIP (an SDK of Debian packages)")
    report.torch, report.rocm = found.describe(), f"ROCm root {request.rocm}"
    report.stands_in = tuple(stands_in)

    _change(environment, request.engine)
    run = script.run_script(request.project.build_scripts / f"{request.recipe.name}.sh", environment, notes)
    after = dict(run.environment)
    if found.stands_in:
        after["PYTHONPATH"] = torch.python_path(found)
    _change(after, request.forced)

    names = settings["supported_archs"]
    wanted = judge.Wanted(
        arch=row["rocm_arch"],
        level=settings["level"],
        languages=tuple(settings["languages"]),
        forbidden=_forbidden_flags(report.package),
        arch_variable=settings["arch_variable"],
        supported=judge.supported_archs(source / names["file"], names["variable"]),
    )
    command = [*_with_build_folder(run.command, build), *pieces.arguments]
    configuration = configure(command, after, source, build, watch, request.cancel)
    report.faults += judge.judge_request(after, wanted)
    report.faults += judge.judge_configuration(configuration)
    if configuration.compile_commands.is_file():
        units = read_compile_commands(configuration.compile_commands)
        report.languages = summarise(units, wanted.forbidden)
        if not configuration.status:
            report.faults += judge.judge_units(units, wanted)
    report.compile_commands = _keep(request, configuration)


def _forbidden_flags(package: str) -> tuple[str, ...]:
    """Those that the package's policy forbids in the finished package."""
    from channel_tools.verify.policy import named_policy
    from channel_tools.verify.policy_file import read_policy

    path = named_policy(package)
    return tuple(read_policy(path).forbidden_flags) if path else ()


def _with_build_folder(command: tuple[str, ...], build: Path) -> list[str]:
    """The script's command with another build folder in every word that names its own."""
    own = command[command.index("-B") + 1]
    return [word.replace(own, str(build)) for word in command]


def _make_files(folder: Path, names: list[str]) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    return folder


def _change(environment: dict[str, str], changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value


def _keep(request: Request, configuration: Configuration) -> str | None:
    folder = request.project.logs / "preflight"
    log = folder / f"{request.stem}.log"
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        log.write_text(configuration.log, encoding="utf-8")
    if not configuration.compile_commands.is_file():
        return None
    kept = folder / f"{request.stem}.compile_commands.json"
    copy_whole(configuration.compile_commands, kept)
    return str(kept)

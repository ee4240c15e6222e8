"""Building a plan: in graph order, several at once, each verified before it enters the channel."""

from __future__ import annotations

import contextlib
import graphlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from channel_tools.build.engines import Settings, channels_for, invocation
from channel_tools.build.failures import classify
from channel_tools.build.local_addresses import without_local_addresses
from channel_tools.build.plan import MISSING, Plan, Step
from channel_tools.build.record import git_commit, write_record
from channel_tools.channel.layout import SUBDIRS
from channel_tools.model.errors import BuildFailedError, ChannelToolsError, VerifyError
from channel_tools.model.files import check_writable, storage_errors, write_text_whole

if TYPE_CHECKING:
    from channel_tools.verify import Report

PATIENCE_S = 5.0

Listener = Callable[[str, str], None]


@dataclass
class Outcome:
    """What became of one step: ``built``, ``kept``, ``failed`` or ``skipped`` (something it needs failed)."""

    step: Step
    status: str
    package: Path | None = None
    seconds: float = 0.0
    error: ChannelToolsError | None = None
    report: Report | None = None


@dataclass
class Builder:
    """Runs the steps of a plan.

    :param listen: called with a stem and what it is doing, from any thread
    :param rebuild: build what the channel has, too, and put it in its place
    """

    settings: Settings
    jobs: int
    listen: Listener = lambda stem, text: None
    keep_going: bool = False
    rebuild: bool = False
    _running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _publishing: threading.Lock = field(default_factory=threading.Lock)

    def run(self, plan: Plan) -> list[Outcome]:
        """Build all steps that are missing. Failures are in the outcomes.

        :raises StorageError: a folder of the build cannot be written, before anything starts
        :raises KeyboardInterrupt: after every running build has been ended and cleaned away
        """
        for folder in (self.settings.project.work, self.settings.project.logs, self.settings.channel.path):
            check_writable(folder)
        self.settings.channel.init()
        steps = plan.by_stem()
        sorter = graphlib.TopologicalSorter(
            {stem: [need for need in step.node.needs if need in steps] for stem, step in steps.items()}
        )
        sorter.prepare()
        outcomes: dict[str, Outcome] = {}
        pending: dict[Future[Outcome], str] = {}
        with ThreadPoolExecutor(max_workers=self.jobs) as pool, self._ended_on_interrupt():
            while sorter.is_active() or pending:
                for stem in sorter.get_ready():
                    step = steps[stem]
                    outcome = self._without_building(step, outcomes)
                    if outcome is None:
                        pending[pool.submit(self._build, step)] = stem
                    else:
                        outcomes[stem] = outcome
                        sorter.done(stem)
                if not pending:
                    continue
                done, _ = wait(pending, return_when=FIRST_COMPLETED, timeout=0.5)
                for future in done:
                    stem = pending.pop(future)
                    outcomes[stem] = future.result()
                    sorter.done(stem)
        return [outcomes[stem] for stem in steps]

    def _without_building(self, step: Step, outcomes: dict[str, Outcome]) -> Outcome | None:
        failed = any(outcomes[n].status in ("failed", "skipped") for n in step.node.needs if n in outcomes)
        stopped = not self.keep_going and any(o.status == "failed" for o in outcomes.values())
        if step.state != MISSING and not self.rebuild:
            return Outcome(step, "kept")
        if failed or stopped:
            return Outcome(step, "skipped")
        return None

    def _build(self, step: Step) -> Outcome:
        node, settings = step.node, self.settings
        start = time.monotonic()
        output = settings.project.work / node.stem
        log = settings.project.logs / f"{node.stem}.log"
        kept_for_inspection = False
        try:
            shutil.rmtree(output, ignore_errors=True)
            package = self._run_engine(step, log)
            without_local_addresses(package)
            self.listen(node.stem, "verifying")
            report = self._verify(package)
            if report.verdict != "pass":
                kept = self._quarantine(package, report)
                raise VerifyError(
                    "the package is not what it declares or its policy says, and is in quarantine",
                    where=kept,
                    found="; ".join(report.all_faults()),
                    wanted=f"code for {', '.join(sorted(report.declared)) or 'no GPU'} and nothing else, "
                    f"by {', '.join(report.policy.sources) if report.policy else 'its metadata'}",
                    fix=f"see {log}",
                )
            self.listen(node.stem, "adding to the channel")
            with self._publishing:
                settings.channel.add([package], replace=self.rebuild)
                write_record(
                    settings.channel.path,
                    package,
                    node,
                    inputs=step.inputs,
                    toolchain=settings.toolchain,
                    engine=settings.engine,
                    seconds=time.monotonic() - start,
                    commit=git_commit(settings.project.root),
                    verify=report.summary(),
                )
            self.listen(node.stem, "built")
            return Outcome(step, "built", package, time.monotonic() - start, report=report)
        except ChannelToolsError as error:
            kept_for_inspection = isinstance(error, BuildFailedError) and not self._stopping.is_set()
            self.listen(node.stem, "failed")
            return Outcome(step, "failed", None, time.monotonic() - start, error)
        finally:
            if not kept_for_inspection:
                shutil.rmtree(output, ignore_errors=True)

    def _run_engine(self, step: Step, log: Path) -> Path:
        node, settings = step.node, self.settings
        run = invocation(node, settings, log)
        with storage_errors(log.parent):
            run.output.mkdir(parents=True)
        self.listen(node.stem, "starting")
        if settings.engine == "rattler":
            said = self._run_job(node.stem, run.command, run.stdin or "", run.environ)
        else:
            said = self._run_program(node.stem, run.command, run.environ, log)
        if self._stopping.is_set():
            raise BuildFailedError("interrupted")
        if "package" in said:
            return Path(said["package"])
        if "error" not in said:
            name = f"{node.package}-{node.version}-*"
            built = [path for subdir in SUBDIRS for path in sorted(run.output.glob(f"{subdir}/{name}"))]
            if len(built) == 1:
                return built[0]
            said = {"error": f"it left {len(built)} packages where one was expected"}
        raise classify(log, said["error"], channels_for(node, settings), run.output)

    def _run_job(self, stem: str, command: list[str], stdin: str, environ: object) -> dict[str, str]:
        with self._process(stem, command, environ, subprocess.PIPE, subprocess.PIPE) as process:
            assert process.stdin and process.stdout
            process.stdin.write(stdin)
            process.stdin.close()
            answer = {"error": "the build process ended without a word"}
            for line in process.stdout:
                try:
                    said = json.loads(line)
                except ValueError:
                    continue
                if "progress" in said:
                    self.listen(stem, said["progress"])
                else:
                    answer = said
            process.wait()
        return answer

    def _run_program(self, stem: str, command: list[str], environ: object, log: Path) -> dict[str, str]:
        with log.open("w", encoding="utf-8") as stream:
            stream.write("+ " + " ".join(command) + "\n")
            stream.flush()
            with self._process(stem, command, environ, subprocess.DEVNULL, stream) as process:
                self.listen(stem, "building")
                status = process.wait()
        return {} if status == 0 else {"error": f"{command[0]} {command[1]} ended with status {status}"}

    @contextlib.contextmanager
    def _process(
        self, stem: str, command: list[str], environ: object, stdin: object, stdout: object
    ) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(  # type: ignore[call-overload]
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.STDOUT if stdout is not subprocess.PIPE else subprocess.DEVNULL,
            env=environ,
            text=True,
            start_new_session=True,
            cwd=self.settings.project.root,
        )
        self._running[stem] = process
        if self._stopping.is_set():
            _end(process)
        try:
            yield process
        finally:
            self._running.pop(stem, None)

    @contextlib.contextmanager
    def _ended_on_interrupt(self) -> Iterator[None]:
        """End every compiler tree when the user gives up, then let the interrupt go on."""
        try:
            yield
        except BaseException:
            self._stopping.set()
            for process in list(self._running.values()):
                _end(process)
            raise

    def _verify(self, package: Path) -> Report:
        from channel_tools.verify import verify_path
        from channel_tools.verify.reading_cache import ReadingCache

        return verify_path(package, cache=ReadingCache(self.settings.project.cache / "verify"))

    def _quarantine(self, package: Path, report: Report) -> Path:
        folder = self.settings.project.quarantine
        target = folder / package.name
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            shutil.move(package, target)
        write_text_whole(
            folder / f"{package.name}.verify.json", json.dumps(report.to_json(), indent=1) + "\n"
        )
        return target


def _end(process: subprocess.Popen[str]) -> None:
    """End a build's whole session: politely, then for good."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=PATIENCE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def available_memory_mib() -> int:
    """Memory in MiB that new processes can get without swapping (``MemAvailable`` of /proc/meminfo)."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return 1024


def parallel_builds(plan: Plan, cpus: int, memory_mib: int) -> int:
    """Builds at once: as processors and memory for two jobs of the hungriest recipe allow, at most 4."""
    missing = [step.node for step in plan.steps if step.state == MISSING]
    hungriest = max((node.memory_per_job_mib or 256 for node in missing), default=256)
    return max(1, min(4, cpus, memory_mib // (2 * hungriest)))

"""What a policy asks for beyond targets: how it was compiled, what it links to, its modules, its sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from channel_tools.verify import package_info
from channel_tools.verify.build_record import BUILD_RECORD, COMPILE_COMMANDS
from channel_tools.verify.evidence import judge_build_evidence
from channel_tools.verify.findings import Fault
from channel_tools.verify.linkage_rules import LinkageContext, judge_linkage, package_libraries
from channel_tools.verify.package_info import PackageInfo
from channel_tools.verify.policy import Modules, Policy
from channel_tools.verify.reading import NESTED, Reading
from channel_tools.verify.report import FileReport

_MIB: Final = 1 << 20
_ONE_FILE: Final = ("conda package", "wheel", "zip", "tar", "file")
_SITE_PACKAGES: Final = "lib/python3/site-packages"


class PolicyRules:
    """Holds the files of one reading against a policy.

    After :meth:`judge`, ``files`` are the same with the faults added, ``faults`` those of no single file, and
    ``evidence`` says what compiler flags were read from (None: nothing that is compiled is in it).

    :param package: what a conda package or wheel says of itself
    :param expected: the GPU targets that units may be compiled for
    """

    def __init__(
        self,
        reading: Reading,
        package: PackageInfo | None,
        policy: Policy,
        expected: frozenset[str],
        files: Sequence[FileReport],
    ) -> None:
        self.files = list(files)
        self.faults: list[Fault] = []
        self.evidence: str | None = None
        self._reading = reading
        self._package = package or PackageInfo("", "")
        self._policy = policy
        self._expected = expected
        self._place: dict[str, int] = {}
        for place, file in enumerate(self.files):
            self._place.setdefault(file.path, place)  # an archive may hold a path twice

    def judge(self, *, damaged: bool) -> None:
        """:param damaged: something could not be read, so that a missing module may be there"""
        hip_version = self._judge_compilation()
        self._judge_linkage(hip_version)
        if not damaged:
            self._judge_modules()
        self._judge_sizes()

    def _add(self, path: str | None, fault: Fault) -> None:
        if path is None:
            self.faults.append(fault)
            return
        if path not in self._place:
            self._place[path] = len(self.files)
            self.files.append(FileReport(path, self._reading.sizes[path], "data"))
        self._add_at(self._place[path], fault)

    def _add_at(self, place: int, fault: Fault) -> None:
        file = self.files[place]
        self.files[place] = replace(file, faults=(*file.faults, fault))

    def _judge_compilation(self) -> str | None:
        """Judge the record of the build; return the HIP release that it names, else the declared one."""
        recorded = {file.path: file.linkage.flags for file in self.files if file.linkage is not None}
        if not recorded:
            return self._package.rocm_version
        evidence = judge_build_evidence(
            self._package.name,
            build_json=self._reading.build_record(self._package.name, BUILD_RECORD),
            compile_commands=self._reading.build_record(self._package.name, COMPILE_COMMANDS),
            recorded=recorded,
            targets=self._expected,
            forbidden=self._policy.forbidden_flags,
            gcc_major=self._policy.gcc,
        )
        for path, fault in evidence.faults:
            self._add(path, fault)
        self.evidence = evidence.source
        return evidence.hip_version or self._package.rocm_version

    def _judge_linkage(self, hip_version: str | None) -> None:
        """Judge each host binary. What lies in an archive in the archive is passed over: it is data there."""
        own = [place for place, file in enumerate(self.files) if file.linkage and NESTED not in file.path]
        binaries = {self.files[place].path: self.files[place].linkage for place in own}
        context = LinkageContext(
            gcc_major=self._policy.gcc,
            allowed_compilers=self._policy.compilers,
            depends=self._package.depends if self._reading.is_conda else None,
            package_libraries=package_libraries(binaries, self._links()),
            allowed_libraries=self._policy.libraries,
            allowed_run_paths=self._policy.run_paths,
            hip_version=hip_version,
            root=_SITE_PACKAGES if self._reading.kind == "wheel" else "",
        )
        for place in own:
            file = self.files[place]
            assert file.linkage is not None
            for fault in judge_linkage(file.path, file.linkage, context):
                self._add_at(place, fault)

    def _links(self) -> set[str]:
        """Paths of links: those that were seen, and those that the package says it has."""
        stated = (
            entry["_path"]
            for entry in package_info.read_paths(self._reading.metadata)
            if entry.get("path_type") == "softlink"
        )
        return {*self._reading.links, *stated}

    def _judge_modules(self) -> None:
        version = self._package.version
        wanted = self._policy.modules_of(version)
        if self._policy.modules and not wanted:
            ranges = ", ".join(sorted({entry.versions for entry in self._policy.modules}))
            self.faults.append(
                Fault(
                    "the policy lists no modules for this version",
                    found=version or "no version",
                    wanted=f"a version in one of: {ranges}",
                    fix="add a table [[modules]] for it to the policy",
                    rule="policy",
                )
            )
        for entry in wanted:
            for name in entry.names:
                self._judge_module(entry, name, version)

    def _judge_module(self, entry: Modules, name: str, version: str) -> None:
        found = entry.find(name, self._reading.sizes)
        if not found:
            self.faults.append(
                Fault(
                    f"no module {entry.folder}/{name}",
                    found="no such file",
                    wanted=f"{entry.folder}/{name}.*.so in version {version}",
                    fix="see the build log: a part of the build was left out",
                    rule="missing-module",
                )
            )
            return
        with_code = {file.path for file in self.files if file.targets}
        if name in entry.with_code and not with_code.intersection(found):
            fault = Fault(
                "a module without its GPU code",
                found="none",
                wanted=f"code for {', '.join(sorted(self._expected)) or 'a GPU'}",
                fix="see the build log: its kernels were not compiled, or were stripped",
                rule="module-without-code",
            )
            self._add(found[0], fault)

    def _judge_sizes(self) -> None:
        budget, sizes = self._policy.budget, self._reading.sizes
        if self._reading.kind in _ONE_FILE:
            self._judge_size(None, "the package", self._reading.size, budget.package_mib)
        self._judge_size(None, "the package, unpacked,", sum(sizes.values()), budget.installed_mib)
        for path, size in sizes.items():
            self._judge_size(path, "the file", size, budget.file_mib)

    def _judge_size(self, path: str | None, what: str, size: int, limit_mib: int | None) -> None:
        if limit_mib is not None and size > limit_mib * _MIB:
            fault = Fault(
                f"{what} is larger than its budget",
                found=f"{size / _MIB:.1f} MiB",
                wanted=f"at most {limit_mib} MiB",
                fix="look for code of more targets, debug information or a bundled library; else raise it",
                rule="size",
            )
            self._add(path, fault)

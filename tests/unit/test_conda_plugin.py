"""The conda plugin: its hook against conda's specification, and what conda gets from it."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pluggy
import pytest

from tests.unit.conda_plugin_support import (
    API,
    EXPECTED,
    FACTS,
    LATE,
    OVERRIDES,
    PLUGIN,
    RELEASES,
    Conda,
    conda_of,
    expected_records,
    run_python,
)
from tests.unit.kfd_hosts import NAMES, close, make_host


@pytest.fixture(params=RELEASES)
def conda(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Conda]:
    yield from conda_of(request.param, monkeypatch, tmp_path / "nothing")


# The hook


def test_the_stand_in_is_what_the_facts_say(conda: Conda) -> None:
    assert list(inspect.signature(conda.types.CondaVirtualPackage).parameters) == conda.release["fields"]
    is_tuple = issubclass(conda.types.CondaVirtualPackage, tuple)
    assert is_tuple == (conda.release["class"] == "NamedTuple")
    spec = inspect.signature(getattr(conda.hookspec.CondaSpecs, FACTS["hook"]["name"]))
    assert list(spec.parameters) == ["self", *FACTS["hook"]["arguments"]]


def test_the_hook_has_the_signature_of_the_specification(conda: Conda) -> None:
    conda.manager.check_pending()
    (impl,) = conda.manager.hook.conda_virtual_packages.get_hookimpls()
    assert list(impl.argnames) == FACTS["hook"]["arguments"] and impl.kwargnames == ()
    assert inspect.isgeneratorfunction(impl.function)
    assert {name for name in vars(conda.plugin) if name.startswith("conda_")} == {FACTS["hook"]["name"]}
    assert [caller.name for caller in conda.manager.get_hookcallers(conda.plugin)] == [FACTS["hook"]["name"]]


def test_another_signature_would_be_refused(conda: Conda) -> None:
    wrong = SimpleNamespace(
        conda_virtual_packages=conda.hookspec.hookimpl(lambda prefix: iter(())), __name__="wrong"
    )
    with pytest.raises(pluggy.PluginValidationError, match="prefix"):
        conda.manager.register(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_what_conda_gets_on_each_machine(
    conda: Conda,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    close(make_host(name, tmp_path), monkeypatch)
    conda.on(tmp_path)
    assert conda.records() == expected_records(name)
    assert capfd.readouterr() == ("", "")


def test_every_machine_is_expected() -> None:
    assert set(EXPECTED) == set(NAMES) and len(NAMES) >= 8


def test_nothing_is_looked_at_before_conda_asks(conda: Conda, tmp_path: Path) -> None:
    make_host("mi300x", tmp_path)
    conda.on(tmp_path)
    assert conda.looked == 0
    packages = conda.manager.get_hook_results("virtual_packages")
    assert conda.looked == (0 if conda.release["late"] else 1)
    if conda.release["late"]:
        assert [package.name for package in packages] == ["amdgpu", "amdgpu_arch", "rocm_userspace"]
    conda.records()
    conda.records()
    assert conda.looked == 1, "once a process"


# Variables


@pytest.mark.parametrize(
    ("host", "variables", "records"),
    [
        ("login", {"AMDGPU": "0"}, {"__amdgpu": "0"}),
        ("login", {"AMDGPU": "0", "AMDGPU_ARCH": "9.4.2"}, {"__amdgpu": "0", "__amdgpu_arch": "9.4.2"}),
        ("login", {"AMDGPU_ARCH": "9.4.2"}, {}),
        ("login", {"AMDGPU": "", "AMDGPU_ARCH": "9.4.2"}, {}),
        ("login", {"ROCM_USERSPACE": "7.2"}, {"__rocm_userspace": "7.2"}),
        ("login", {"ROCM_USERSPACE": "7.2.3"}, {"__rocm_userspace": "7.2"}),
        ("login", {"ROCM_USERSPACE": "10.0.1-42"}, {"__rocm_userspace": "10.0"}),
        ("mi300x", {"AMDGPU": ""}, {}),
        ("mi300x", {"AMDGPU": "  "}, {}),
        ("mi300x", {"AMDGPU": "", "AMDGPU_ARCH": "9.0.10"}, {}),
        ("mi300x", {"AMDGPU_ARCH": ""}, {"__amdgpu": "0"}),
        ("mi300x", {"AMDGPU_ARCH": "9.0.10"}, {"__amdgpu": "0", "__amdgpu_arch": "9.0.10"}),
        ("mi300x", {"AMDGPU_ARCH": " 09.0.10 "}, {"__amdgpu": "0", "__amdgpu_arch": "9.0.10"}),
        ("mi300x", {"AMDGPU": "0"}, {"__amdgpu": "0", "__amdgpu_arch": "9.4.2"}),
        ("display", {"AMDGPU_ARCH": "11.0.0"}, {"__amdgpu": "0", "__amdgpu_arch": "11.0.0"}),
    ],
)
def test_variables_replace_what_is_found(
    conda: Conda,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    variables: dict[str, str],
    records: dict[str, str],
) -> None:
    make_host(host, tmp_path)
    conda.on(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(f"CONDA_OVERRIDE_{name}", value)
    assert conda.records() == records


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("AMDGPU", "1", "write 0"),
        ("AMDGPU", "gfx942", "write 0"),
        ("AMDGPU_ARCH", "gfx942", "as 9.4.2"),
        ("AMDGPU_ARCH", "gfx90a", "as 9.0.10"),
        ("AMDGPU_ARCH", "9.0.a", "three decimal numbers"),
        ("AMDGPU_ARCH", "9.4", "three decimal numbers"),
        ("AMDGPU_ARCH", "9.4.2.1", "three decimal numbers"),
        ("AMDGPU_ARCH", "٩.٤.٢", "three decimal numbers"),
        ("ROCM_USERSPACE", "rocm7.2", "as 7.2"),
        ("ROCM_USERSPACE", "7", "as 7.2"),
        ("ROCM_USERSPACE", "%(x)s%", "as 7.2"),
    ],
)
def test_a_value_that_cannot_be_meant_is_one_line_from_conda(
    conda: Conda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, hint: str
) -> None:
    make_host("mi300x", tmp_path)
    conda.on(tmp_path)
    monkeypatch.setenv(f"CONDA_OVERRIDE_{name}", value)
    with pytest.raises(conda.exceptions.CondaValueError) as refused:
        conda.records()
    assert f"CONDA_OVERRIDE_{name} is {value!r}" in str(refused.value) and hint in str(refused.value)


@pytest.mark.parametrize("conda", LATE, indirect=True)
def test_condarc_replaces_what_is_found_where_conda_has_that(
    conda: Conda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_host("login", tmp_path)
    conda.on(tmp_path)
    monkeypatch.setenv("STAND_IN_CONDARC", json.dumps({"amdgpu_arch": "9.4.2", "rocm_userspace": "7.2"}))
    assert conda.records() == {"__rocm_userspace": "7.2"}, "an arch without a GPU"
    monkeypatch.setenv("STAND_IN_CONDARC", json.dumps({"amdgpu": "0", "amdgpu_arch": "9.4.2"}))
    assert conda.records() == {"__amdgpu": "0", "__amdgpu_arch": "9.4.2"}
    monkeypatch.setenv("CONDA_OVERRIDE_AMDGPU", "")
    assert conda.records() == {}


RATTLER = """
import json, os, sys
from rattler import VirtualPackage, VirtualPackageOverrides
for case in json.load(sys.stdin):
    os.environ.update(case)
    try:
        found = [p.into_generic() for p in VirtualPackage.detect(VirtualPackageOverrides.from_env())]
        said = {p.name.normalized: str(p.version) for p in found if "amdgpu" in p.name.normalized}
    except Exception:
        said = "refused"
    print(json.dumps(said), flush=True)
os._exit(0)
"""


def test_variables_mean_what_they_mean_for_py_rattler(conda: Conda, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both variables set, so that no machine is looked at."""
    arches = ("9.0.10", "9.4.2", "09.4.2", "")
    pairs = [(present, arch) for present in ("0", "") for arch in arches]
    pairs += [("1", "9.4.2"), ("0", "9.4"), ("0", "9.0.a"), ("0", "gfx942"), ("0", "9.4.2.0")]
    cases = [dict(zip(OVERRIDES[:2], pair, strict=True)) for pair in pairs]
    command = [sys.executable, "-c", RATTLER]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, check=True)
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        for name, value in case.items():
            monkeypatch.setenv(name, value)
        try:
            ours: Any = conda.records()
        except conda.exceptions.CondaValueError:
            ours = "refused"
        assert ours == json.loads(line), case


# Other plugins


def test_two_plugins_with_one_name_would_stop_conda(conda: Conda) -> None:
    conda.other_plugin(("amdgpu", "0"))
    conda.other_plugin(("amdgpu", "0"))
    with pytest.raises(conda.exceptions.PluginError, match="amdgpu"):
        conda.records()


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize(
    ("theirs", "records"),
    [
        ([("amdgpu", "0"), ("amdgpu_arch", "1.2.3")], {"__amdgpu": "0", "__amdgpu_arch": "1.2.3"}),
        ([("amdgpu", "0")], {"__amdgpu": "0"}),
        ([("amdgpu_arch", "1.2.3")], {"__amdgpu_arch": "1.2.3"}),
        ([("cuda", "13.0")], {"__cuda": "13.0", "__amdgpu": "0", "__amdgpu_arch": "9.4.2"}),
    ],
)
def test_it_steps_aside(
    conda: Conda, tmp_path: Path, order: str, theirs: list[tuple[str, str]], records: dict[str, str]
) -> None:
    make_host("mi300x", tmp_path)
    conda.on(tmp_path)
    (tmp_path / "opt/rocm/.info").mkdir(parents=True)
    (tmp_path / "opt/rocm/.info/version").write_text("7.2.0-1\n")
    if order == "after":
        conda.manager.unregister(conda.plugin)
    conda.other_plugin(*theirs, late=conda.release["late"])
    if order == "after":
        conda.manager.register(conda.plugin)
    assert conda.records() == {"__rocm_userspace": "7.2"} | records


def test_it_steps_aside_for_rocm_alone(conda: Conda, tmp_path: Path) -> None:
    make_host("mi300x", tmp_path)
    conda.on(tmp_path)
    conda.other_plugin(("rocm_userspace", "7.0"))
    assert conda.records() == {"__rocm_userspace": "7.0", "__amdgpu": "0", "__amdgpu_arch": "9.4.2"}


def test_it_does_not_call_other_plugins_twice(conda: Conda) -> None:
    calls = []

    @conda.hookspec.hookimpl  # type: ignore[untyped-decorator]
    def conda_virtual_packages() -> list[Any]:
        calls.append(1)
        return []

    conda.manager.register(
        SimpleNamespace(conda_virtual_packages=conda_virtual_packages, __name__="counting")
    )
    conda.records()
    assert calls == [1]


@pytest.mark.parametrize("lazily", [True, False])
def test_an_error_of_another_plugin_stays_that_error(conda: Conda, lazily: bool) -> None:
    def raising() -> Any:
        raise KeyError("theirs")

    def generator() -> Iterator[Any]:
        raising()
        yield

    function = conda.hookspec.hookimpl(generator if lazily else raising)
    conda.manager.register(SimpleNamespace(conda_virtual_packages=function, __name__="broken"))
    with warnings.catch_warnings(), pytest.raises(KeyError, match="theirs"):
        warnings.simplefilter("error")
        conda.records()


def test_without_plugins_it_is_gone(conda: Conda, tmp_path: Path) -> None:
    make_host("mi300x", tmp_path)
    conda.on(tmp_path)
    conda.manager.disable_external_plugins()
    assert conda.records() == {} and conda.looked == 0


# Loading


def test_loading_it_loads_nothing_else() -> None:
    """What each conda command pays for the plugin: two modules, no look at the machine."""
    said = run_python(
        "import sys, time\n"
        "import conda.plugins.manager\n"
        "before = set(sys.modules)\n"
        "start = time.perf_counter()\n"
        "import conda_amdgpu_arch.plugin\n"
        "print(time.perf_counter() - start, *sorted(set(sys.modules) - before))\n",
        path=(API, PLUGIN),
    ).split()
    assert said[1:] == ["conda_amdgpu_arch", "conda_amdgpu_arch.plugin"]
    assert float(said[0]) < 0.05


def test_it_needs_nothing_of_conda_but_the_marker() -> None:
    said = run_python(
        "import sys\n"
        "import conda.plugins.hookspec\n"
        "before = set(sys.modules)\n"
        "import conda_amdgpu_arch.plugin\n"
        "print(*sorted(name for name in set(sys.modules) - before if name.startswith('conda')))\n",
        path=(API, PLUGIN),
    ).split()
    assert said == ["conda_amdgpu_arch", "conda_amdgpu_arch.plugin"]

"""``rocm-channel clean`` on folders made here: what it lists and removes, and what it leaves alone."""

from __future__ import annotations

import errno
import json
import os
import pty
import pwd
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from channel_tools.cli.main import app
from channel_tools.diagnose.cleaning.clean import find_stale
from channel_tools.diagnose.cleaning.items import Item, Kept, remove
from channel_tools.diagnose.doctor.hosts import LiveHost, Record, RecordedHost
from channel_tools.model.errors import StorageError

TRITON_KEY = "A2B3C4D5E6F7" * 4 + "ABCD"


def put(path: Path, text: str = "x" * 5000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def wheel(path: Path, name: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
    return path


def host_at(root: Path, **environ: str) -> RecordedHost:
    return RecordedHost(root, Record(environ={"HOME": "/home/lena", "USER": "lena", **environ}))


def listed(host: RecordedHost, *trees: str, arch: str | None = None) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for item, _ in find_stale(host, trees, arch).items:
        found.setdefault(item.kind, set()).update(item.paths)
    return found


# --- source trees ---------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "src" / "vllm"
    put(tree / "setup.py", "")
    put(tree / "vllm/__init__.py", "")
    put(tree / "vllm/__pycache__/a.cpython-312.pyc")
    put(tree / "build/temp/x.o")
    put(tree / "dist/vllm.whl")
    put(tree / "vllm.egg-info/PKG-INFO")
    put(tree / "docs/build/keep.md")
    put(tree / "vllm/dist/keep.py")
    put(tree / ".git/__pycache__/keep")
    put(tree / ".venv/lib/__pycache__/keep")
    return tree


def test_leftovers_of_a_source_tree(tmp_path: Path, tree: Path) -> None:
    (tree / ".git").rename(tree.parent / "other")
    assert listed(host_at(tmp_path), "/src/vllm") == {
        "build-folder": {"/src/vllm/build", "/src/vllm/dist"},
        "egg-info": {"/src/vllm/vllm.egg-info"},
        "pycache": {"/src/vllm/vllm/__pycache__"},
    }


def test_what_git_tracks_is_kept(tmp_path: Path, tree: Path) -> None:
    host = host_at(tmp_path)
    unknown = find_stale(host, ["/src/vllm"], None)
    assert unknown.items == ()
    assert {kept.reason for kept in unknown.kept} == {"git does not say whether it belongs to the source"}
    programs = {
        f"git -C /src/vllm ls-files -- /src/vllm/{name}": {"text": text}
        for name, text in (("build", "build/CMake.txt\n"), ("dist", ""))
    }
    record = Record.model_validate({"environ": {"HOME": "/home/lena"}, "programs": programs})
    stale = find_stale(RecordedHost(tmp_path, record), ["/src/vllm"], None)
    assert [item.path for item, _ in stale.items] == ["/src/vllm/dist"]
    assert Kept("/src/vllm/build", "git tracks files in it") in stale.kept


def git(folder: Path, *words: str) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *name, "-C", str(folder), *words], check=True, capture_output=True)


def commit(folder: Path, *paths: str) -> None:
    git(folder, "init", "--quiet")
    git(folder, "add", "--force", *paths)
    git(folder, "commit", "--quiet", "-m", "x")


@pytest.mark.parametrize(
    ("checkout", "tracked"),
    [(".", "python/build/keep.py"), ("python", "build/keep.py"), ("python/sub", "t.egg-info/PKG-INFO")],
    ids=["the tree is a part of a checkout", "the tree is one", "a checkout within the tree"],
)
def test_what_git_tracks_is_kept_wherever_the_checkout_begins(
    tmp_path: Path, checkout: str, tracked: str
) -> None:
    tree = tmp_path / "python"
    put(tree / "setup.py", "")
    put(tree / "dist/a.whl")
    put(tmp_path / checkout / tracked)
    commit(tmp_path / checkout, tracked)
    stale = find_stale(LiveHost(), [str(tree)], None)
    here = [item.path for item, _ in stale.items if item.path.startswith(str(tmp_path))]
    assert here == [str(tree / "dist")]
    kept = str((tmp_path / checkout / tracked).parent)
    assert Kept(kept, "git tracks files in it") in stale.kept


def test_a_checkout_in_place_of_a_build_folder_is_kept(tmp_path: Path) -> None:
    put(tmp_path / "s/setup.py", "")
    commit(tmp_path / "s", "setup.py")
    git(tmp_path / "s", "worktree", "add", "dist", "-b", "pages")
    put(tmp_path / "s/build/x")
    commit(tmp_path / "s/build", "x")
    stale = find_stale(LiveHost(), [str(tmp_path / "s")], None)
    assert not [item for item, _ in stale.items if item.path.startswith(str(tmp_path))]
    kept = {one.path for one in stale.kept if one.reason == "is a git checkout of its own"}
    assert kept == {str(tmp_path / "s/dist"), str(tmp_path / "s/build")}


def test_egg_info_of_a_source_release_is_kept(tmp_path: Path) -> None:
    put(tmp_path / "s/setup.py", "")
    put(tmp_path / "s/PKG-INFO", "Name: s\n")
    put(tmp_path / "s/s.egg-info/PKG-INFO", "Name: s\n")
    put(tmp_path / "s/python/t.egg-info/PKG-INFO", "Name: t\n")
    assert listed(host_at(tmp_path), "/s") == {"egg-info": {"/s/python/t.egg-info"}}


CACHE = "CMAKE_HIP_ARCHITECTURES:STRING={arch}\nCMAKE_CXX_COMPILER:FILEPATH={compiler}\n# GPU_TARGETS=none\n"


@pytest.mark.parametrize(
    ("made_for", "compiler", "arch", "stale"),
    [
        ("gfx90a", "/usr/bin/g++", "gfx942", "made for gfx90a, not gfx942"),
        ("gfx90a;gfx942", "/usr/bin/g++", "gfx942", "made for gfx90a;gfx942, not gfx942"),
        ("gfx942", "/usr/bin/g++", "gfx942", None),
        ("gfx90a", "/usr/bin/g++", None, None),
        ("gfx942", "/opt/gcc/g++", "gfx942", "CMAKE_CXX_COMPILER was /opt/gcc/g++, which is gone"),
    ],
)
def test_cmake_caches(
    tmp_path: Path, made_for: str, compiler: str, arch: str | None, stale: str | None
) -> None:
    put(tmp_path / "usr/bin/g++")
    put(tmp_path / "p/CMakeLists.txt", "")
    put(tmp_path / "p/out/rocm/CMakeCache.txt", CACHE.format(arch=made_for, compiler=compiler))
    put(tmp_path / "p/out/rocm/CMakeFiles/3.31/x")
    put(tmp_path / "p/out/rocm/result.so")
    items = find_stale(host_at(tmp_path), ["/p"], arch).items
    assert [item.reason for item, _ in items] == ([stale] if stale else [])
    if stale:
        assert items[0][0].paths == ("/p/out/rocm/CMakeCache.txt", "/p/out/rocm/CMakeFiles")


def test_only_source_trees_are_looked_into(tmp_path: Path) -> None:
    put(tmp_path / "data/build/x")
    with pytest.raises(StorageError, match="is no source tree"):
        find_stale(host_at(tmp_path), ["/data"], None)


def test_links_in_a_tree_are_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "s/setup.py", "")
    put(tmp_path / "precious/__pycache__/x")
    (tmp_path / "s/build").symlink_to(tmp_path / "precious")
    (tmp_path / "s/linked").symlink_to("/precious")
    assert listed(host_at(tmp_path), "/s") == {}


# --- caches ---------------------------------------------------------------------------------------


def test_wheels_in_pips_cache(tmp_path: Path) -> None:
    wheels = tmp_path / "home/lena/.cache/pip/wheels"
    gone = [
        wheel(wheels / "1/2/3/4/vllm-0.16.0+rocm70-cp38-abi3-linux_x86_64.whl", "vllm"),
        wheel(
            wheels / "1/2/3/5/pytorch_triton_rocm-3.5.1-cp312-cp312-linux_x86_64.whl", "pytorch-triton-rocm"
        ),
        put(wheels / "1/2/3/6/torch-2.9.1-1-cp312-cp312-linux_x86_64.whl", "not an archive"),
    ]
    wheel(wheels / "1/2/3/7/torchvision-0.24-cp312-cp312-linux_x86_64.whl", "torchvision")
    wheel(wheels / "1/2/3/8/vllm-1.0-py3-none-any.whl", "something-else")
    put(wheels / "1/2/3/4/origin.json")
    put(tmp_path / "home/lena/.cache/pip/http-v2/a/b/torch-2.9.1-cp312-cp312-linux_x86_64.whl")
    expected = {"/" + str(path.relative_to(tmp_path)) for path in gone}
    assert listed(host_at(tmp_path)) == {"pip-wheel": expected}
    assert listed(host_at(tmp_path, PIP_CACHE_DIR="/elsewhere")) == {}


def test_kernel_caches(tmp_path: Path) -> None:
    home = tmp_path / "home/lena"
    put(home / f".triton/cache/{TRITON_KEY}/k.hsaco")
    put(home / ".triton/cache/notes/mine.txt")
    put(home / ".triton/llvm/keep")
    put(home / ".cache/torch_extensions/py312_cpu/my_ext/build.ninja")
    put(home / ".cache/torch_extensions/README.md")
    put(home / ".cache/vllm/torch_compile_cache/0123456789/rank_0/x")
    put(home / ".cache/vllm/assets/keep")
    put(tmp_path / "tmp/torchinductor_lena/ab/cabc.py")
    put(tmp_path / "tmp/torchinductor_lena/triton/0/x")
    put(tmp_path / "tmp/torchinductor_other/ab/cabc.py")
    assert listed(host_at(tmp_path)) == {
        "triton-cache": {f"/home/lena/.triton/cache/{TRITON_KEY}"},
        "torch-extensions": {"/home/lena/.cache/torch_extensions/py312_cpu"},
        "vllm-graphs": {"/home/lena/.cache/vllm/torch_compile_cache/0123456789"},
        "inductor-cache": {"/tmp/torchinductor_lena/ab", "/tmp/torchinductor_lena/triton"},
    }


def test_a_cache_variable_that_names_another_folder(tmp_path: Path) -> None:
    put(tmp_path / f"fast/{TRITON_KEY}/k.hsaco")
    put(tmp_path / "fast/thesis/chapter.tex")
    put(tmp_path / "fast/go/main.go")
    put(tmp_path / "fast/triton/setup.py")
    put(tmp_path / "fast/ab/cabcdef.py")
    put(tmp_path / "fast/my_ext/build.ninja")
    put(tmp_path / "fast/my_project/build.ninja")
    put(tmp_path / "fast/my_project/CMakeLists.txt")
    names = dict.fromkeys(["TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR"], "/fast")
    assert listed(host_at(tmp_path, **names)) == {
        "triton-cache": {f"/fast/{TRITON_KEY}"},
        "inductor-cache": {"/fast/ab"},
        "torch-extensions": {"/fast/my_ext"},
    }
    put(tmp_path / "fast/fxgraph/x")
    assert listed(host_at(tmp_path, **names))["inductor-cache"] == {"/fast/ab", "/fast/fxgraph"}


@pytest.mark.parametrize("folder", ["/home/lena", "/home", "/", "cache", ""])
def test_a_cache_variable_that_names_the_home_folder(tmp_path: Path, folder: str) -> None:
    put(tmp_path / f"home/lena/{TRITON_KEY}/k.hsaco")
    put(tmp_path / f"home/{TRITON_KEY}/k.hsaco")
    put(tmp_path / "home/lena/ab/cabcdef.py")
    put(tmp_path / "home/lena/x/build.ninja")
    names = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
    assert listed(host_at(tmp_path, **dict.fromkeys(names, folder))) == {}


VARIABLES = (
    *("PIP_CACHE_DIR", "XDG_CACHE_HOME", "TRITON_HOME", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR"),
    *("TORCHINDUCTOR_CACHE_DIR", "TMPDIR", "VLLM_CACHE_ROOT", "CONDA_BLD_PATH", "HOME"),
)


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize("folder", ["x", "./x", "~/x"])
def test_a_variable_without_an_absolute_path_leads_nowhere(tmp_path: Path, name: str, folder: str) -> None:
    """Else it would be taken for a folder of the root."""
    for start in ("x", "~/x"):
        here = tmp_path / start
        wheel(here / "wheels/1/vllm-0.16.0-cp38-abi3-linux_x86_64.whl", "vllm")
        wheel(here / "pip/wheels/1/vllm-0.16.0-cp38-abi3-linux_x86_64.whl", "vllm")
        wheel(here / ".cache/pip/wheels/1/vllm-0.16.0-cp38-abi3-linux_x86_64.whl", "vllm")
        put(here / f"{TRITON_KEY}/k.hsaco")
        put(here / f".triton/cache/{TRITON_KEY}/k.hsaco")
        put(here / "torch_extensions/py312_cpu/a/build.ninja")
        put(here / "torchinductor_lena/ab/cabc.py")
        put(here / "torch_compile_cache/0123456789/x")
        put(here / "vllm-rocm_1764500000123/work/x")
        put(here / "conda-bld/vllm-rocm_1764500000123/work/x")
    stale = find_stale(host_at(tmp_path, **{name: folder}), [], None)
    assert stale.items == ()


def test_a_cache_behind_a_link_is_kept(tmp_path: Path) -> None:
    put(tmp_path / f"big/triton/cache/{TRITON_KEY}/k.hsaco")
    (tmp_path / "home/lena").mkdir(parents=True)
    (tmp_path / "home/lena/.triton").symlink_to("/big/triton")
    stale = find_stale(host_at(tmp_path), [], None)
    assert stale.items == ()
    assert stale.kept == (Kept("/home/lena/.triton", "is a link, and links are not followed"),)


def test_work_folders_of_engines(tmp_path: Path) -> None:
    blds = tmp_path / "home/lena/miniforge3/conda-bld"
    put(tmp_path / "home/lena/miniforge3/bin/conda")
    put(blds / "vllm-rocm_1764500000123/work/x")
    put(blds / "vllm-rocm_1764500000124/notes")
    put(blds / "linux-64/vllm.conda")
    put(blds / "src_cache/vllm.tar.gz")
    put(tmp_path / "p/work/canary-0/bld/rattler-build_rocm-canary_1764500000/work/x")
    put(tmp_path / "p/work/canary-0/linux-64/canary.conda")
    host = host_at(tmp_path, CONDA_EXE="/home/lena/miniforge3/bin/conda", PWD="/p")
    assert listed(host) == {
        "conda-work": {"/home/lena/miniforge3/conda-bld/vllm-rocm_1764500000123"},
        "rattler-work": {"/p/work/canary-0/bld/rattler-build_rocm-canary_1764500000"},
    }


def test_what_a_process_works_in_is_kept(tmp_path: Path, tree: Path) -> None:
    (tree / ".git").rename(tree.parent / "other")
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/cwd").symlink_to("/src/vllm/build/temp")
    stale = find_stale(host_at(tmp_path), ["/src/vllm"], None)
    assert "/src/vllm/build" not in {item.path for item, _ in stale.items}
    assert Kept("/src/vllm/build", "process 77 works in it") in stale.kept


# --- removing -------------------------------------------------------------------------------------


def test_links_inside_are_removed_as_links(tmp_path: Path) -> None:
    precious = put(tmp_path / "precious/x")
    put(tmp_path / "s/build/y")
    (tmp_path / "s/build/link").symlink_to(precious.parent)
    remove(host_at(tmp_path), Item("build-folder", "/s/build", ""))
    assert not (tmp_path / "s/build").exists()
    assert precious.exists()


def test_a_folder_that_became_a_link_meanwhile(tmp_path: Path) -> None:
    precious = put(tmp_path / "precious/cache/ab/x")
    (tmp_path / "s").symlink_to("/precious")
    with pytest.raises(StorageError, match="not what it was"):
        remove(host_at(tmp_path), Item("triton-cache", "/s/cache", "", ("ab",)))
    (tmp_path / "t").mkdir()
    (tmp_path / "t/build").symlink_to("/precious")
    remove(host_at(tmp_path), Item("build-folder", "/t/build", ""))
    assert precious.exists()


@pytest.mark.parametrize("path", ["/home/lena", "/home", "/"])
def test_home_is_never_removed(tmp_path: Path, path: str) -> None:
    kept = put(tmp_path / "home/lena/.bashrc")
    with pytest.raises(StorageError):
        remove(host_at(tmp_path), Item("build-folder", path, ""))
    assert kept.exists()


# --- the command ----------------------------------------------------------------------------------


def command(home: Path, *arguments: str | Path, said: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "channel_tools", "clean", *arguments],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "USER": "nobody-here"},
        cwd=home,
        input=said,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    put(home / f".triton/cache/{TRITON_KEY}/k.hsaco", "x" * 200_000)
    put(home / "src/setup.py", "")
    put(home / "src/build/x")
    return home


def test_a_dry_run_removes_nothing(home: Path) -> None:
    before = sorted(home.rglob("*"))
    done = command(home, home / "src", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "triton-cache" in done.stdout and "KiB" in done.stdout
    assert sorted(home.rglob("*")) == before


def test_without_a_terminal_it_asks_for_yes(home: Path) -> None:
    before = sorted(home.rglob("*"))
    done = command(home, home / "src", said="y\n")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert sorted(home.rglob("*")) == before


def test_yes_removes_what_was_listed(home: Path) -> None:
    done = command(home, home / "src", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {item["kind"]: item["removed"] for item in report["items"]} == {
        "build-folder": True,
        "triton-cache": True,
    }
    assert report["total"] >= 200_000
    left = sorted(str(path.relative_to(home)) for path in home.rglob("*"))
    assert left == [".triton", ".triton/cache", "src", "src/setup.py"]
    again = command(home, home / "src", "--yes")
    assert again.stdout == "nothing is stale\n"


@pytest.mark.parametrize(("answer", "left"), [(b"n\n", True), (b"\n", True), (b"y\n", False)])
def test_it_asks_on_a_terminal(home: Path, answer: bytes, left: bool) -> None:
    terminal, end = pty.openpty()
    os.write(terminal, answer)
    done = subprocess.run(
        [sys.executable, "-m", "channel_tools", "clean", home / "src"],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "USER": "nobody-here"},
        cwd=home,
        stdin=end,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    os.close(end)
    os.close(terminal)
    assert done.returncode == 0, done.stderr
    assert "remove these 2" in done.stdout
    assert (home / "src/build").exists() is left


def test_a_checkout_of_rocm_channel_is_kept(tmp_path: Path) -> None:
    put(tmp_path / "c/pyproject.toml", "")
    put(tmp_path / "c/variants/conda_build_config.yaml", "")
    put(tmp_path / "c/build/x")
    stale = find_stale(host_at(tmp_path), ["/c"], None)
    assert (stale.items, [kept.path for kept in stale.kept]) == ((), ["/c"])


def test_json_cannot_ask(home: Path) -> None:
    assert command(home, "--json").returncode == 2


def test_a_real_git_tree(home: Path) -> None:
    tree = home / "src"
    for words in (["init", "-q"], ["add", "build/x"]):
        subprocess.run(["git", "-C", tree, *words], check=True)
    done = command(home, tree, "--dry-run")
    assert "git tracks files in it" in done.stdout
    assert "build-folder" not in done.stdout


def test_a_folder_that_is_no_source_tree(home: Path) -> None:
    done = command(home, home, "--yes")
    assert done.returncode == 41
    assert "is no source tree" in done.stderr


def test_what_lies_in_something_listed_is_listed_once(home: Path) -> None:
    put(home / "src/build/deps/setup.py", "")
    put(home / "src/build/deps/build/x")
    put(home / "src/build/deps/out/CMakeCache.txt", "GPU_TARGETS:STRING=gfx90a\n")
    put(home / "src/pkg/__pycache__/x.pyc")
    trees = (home / "src", home / "src/build/deps", home / "src")
    done = command(home, *trees, "--arch", "gfx942", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert sorted(Path(item["path"]).name for item in report["items"]) == ["__pycache__", "build", "cache"]
    assert all(item["removed"] for item in report["items"])


@pytest.mark.parametrize("place", ["src/build", "src/build/data"])
def test_what_is_mounted_in_a_folder_is_kept(tmp_path: Path, place: str) -> None:
    put(tmp_path / "src/setup.py", "")
    put(tmp_path / "src/build/data/model")
    put(tmp_path / "src/dist/x")
    put(tmp_path / "proc/self/mounts", f"/dev/sda1 / ext4 rw 0 0\nnas:/x /{place} nfs4 rw 0 0\n")
    stale = find_stale(host_at(tmp_path), ["/src"], None)
    assert [item.path for item, _ in stale.items] == ["/src/dist"]
    assert [kept.path for kept in stale.kept] == ["/src/build"] and f"/{place}" in stale.kept[0].reason


def test_one_folder_that_cannot_be_removed_does_not_keep_the_others(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(home / "src/dist/x")
    real = shutil.rmtree

    def refusing(path: Path) -> None:
        if path.name == "build":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        real(path)

    monkeypatch.setattr(shutil, "rmtree", refusing)
    monkeypatch.setenv("HOME", str(home))
    done = CliRunner().invoke(app, ["clean", str(home / "src"), "--yes", "--json"])
    assert isinstance(done.exception, StorageError) and done.exception.exit_code == 41
    assert "1 of" in str(done.exception) and "src/build cannot be removed" in str(done.exception)
    removed = {Path(item["path"]).name: item["removed"] for item in json.loads(done.stdout)["items"]}
    assert removed["dist"] and not removed["build"]
    assert (home / "src/build").exists() and not (home / "src/dist").exists()


@pytest.mark.parametrize("arch", ["", "mi300x", "MI300X", "942", "gfx", "gfx942:xnack-", "gfx90a;gfx942"])
def test_an_arch_that_is_none_makes_no_cache_stale(
    home: Path, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(home / "src/b/CMakeCache.txt", "CMAKE_HIP_ARCHITECTURES:STRING=gfx942\n")
    monkeypatch.setenv("HOME", str(home))
    done = CliRunner().invoke(app, ["clean", str(home / "src"), "--arch", arch, "--yes"])
    assert done.exit_code == 2 and "--arch" in done.output
    assert (home / "src/b/CMakeCache.txt").exists()


def test_names_are_fit_for_a_terminal(home: Path) -> None:
    put(home / "src" / "a\x1b[31m\nb\udcff" / "__pycache__/x.pyc")
    done = command(home, home / "src", "--dry-run")
    assert r"a\x1b[31m\nb\xff/__pycache__" in done.stdout and "\x1b" not in done.stdout
    report = command(home, home / "src", "--dry-run", "--json")
    assert json.loads(report.stdout)["items"]


@pytest.mark.parametrize("name", ["HOME", "USER", "PWD"])
@pytest.mark.parametrize("value", [None, ""])
def test_what_the_shell_does_not_tell_of_the_user(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str | None
) -> None:
    user = pwd.getpwuid(os.getuid())
    for one in ("HOME", "USER", "LOGNAME", "PWD"):
        monkeypatch.setenv(one, "/x")
    monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
    wanted = {"HOME": user.pw_dir, "USER": "/x", "PWD": str(Path.cwd())}
    assert LiveHost().variable(name) == wanted[name]

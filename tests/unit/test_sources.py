"""Sources: read from recipes, fetched over a network that fails in every way, kept by their sha256."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import random
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from channel_tools.model.errors import (
    ChannelToolsError,
    DamagedFileError,
    RecipeError,
    SourceError,
    StorageError,
)
from channel_tools.model.matrix import Matrix, read_matrix
from channel_tools.model.project import Project
from channel_tools.sources.download import Patience
from channel_tools.sources.export import SUMS, export
from channel_tools.sources.fetch import Fetched, Fetcher
from channel_tools.sources.needed import Source, needed_sources, outputs_for, recipe_outputs
from channel_tools.sources.python_index import project_of
from channel_tools.sources.store import Store
from channel_tools.sources.unpack import unpack
from tests.unit.web import Page, Web, serve

ROOT = Path(__file__).resolve().parents[2]
MATRIX = read_matrix(ROOT / "variants" / "conda_build_config.yaml")
HASTE = Patience(tries=2, limit=20, backoff_s=0.01, longest_s=0.05, connect_s=5, read_s=5)


def some_bytes(seed: int, size: int = 400_000) -> bytes:
    return random.Random(seed).randbytes(size)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


ORIGINAL, OTHER = some_bytes(1), some_bytes(2)


@pytest.fixture
def web() -> Iterator[Web]:
    with serve() as running:
        yield running


@pytest.fixture(autouse=True)
def no_mirror_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_MIRROR", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache" / "sources")


def source(*urls: str, content: bytes = ORIGINAL, name: str = "thing.tar.gz") -> Source:
    return Source(name, sha256(content), urls)


def fetch(store: Store, *wanted: Source, offline: bool = False) -> list[Fetched]:
    return Fetcher(store, offline, patience=HASTE).run(wanted)


def fetch_one(store: Store, wanted: Source, *, offline: bool = False) -> Fetched:
    (result,) = fetch(store, wanted, offline=offline)
    return result


# --- what the recipes need


def recipe(source_section: str, name: str = "thing") -> str:
    return f"""schema_version: 1
package:
  name: {name}
  version: "1"
source:
{source_section}
build:
  number: 0
  script:
    - "true"
"""


def project(folder: Path, **recipes: str) -> Project:
    (folder / "variants").mkdir(parents=True)
    (folder / "variants" / "conda_build_config.yaml").write_text(MATRIX.path.read_text())
    for name, content in recipes.items():
        (folder / "recipes" / name).mkdir(parents=True)
        (folder / "recipes" / name / "recipe.yaml").write_text(content)
    return Project(folder)


def url_source(url: str, digest: str, more: str = "") -> str:
    return f"  - url: {url}\n    sha256: {digest}\n{more}"


def sources_for(matrix: Matrix, *packages: str) -> dict[str, Source]:
    return {source.name: source for source in needed_sources(Project(ROOT), matrix, packages)}


def test_the_recipes_and_the_matrix_are_the_list() -> None:
    found = sources_for(MATRIX)
    for prefix, name in (("vllm", "vllm-{}.tar.gz"), ("pytorch", "pytorch-v{}.tar.gz")):
        for version, digest in zip(
            MATRIX.values[f"{prefix}_version"], MATRIX.values[f"{prefix}_sha256"], strict=True
        ):
            assert found[name.format(version)].sha256 == digest
    for one in found.values():
        assert one.urls and all(url.startswith("https://") for url in one.urls), "public addresses only"
        assert one.uses
    digests = {d for key, values in MATRIX.values.items() if key.endswith("_sha256") for d in values}
    assert {one.sha256 for one in found.values()} >= digests


def test_a_source_that_two_packages_need_is_one_source() -> None:
    shared = sources_for(MATRIX)["triton-3.5.1.tar.gz"]
    assert {use.package for use in shared.uses} == {"triton-rocm", "vllm-rocm"}
    assert {use.variant["rocm_version"] for use in shared.uses if use.package == "vllm-rocm"} == {"7.2"}
    assert {use.target_directory for use in shared.uses if use.package == "vllm-rocm"} == {"triton-kernels"}


def test_a_part_of_the_matrix_and_of_the_recipes() -> None:
    part = MATRIX.restricted({"rocm_version": ["7.0"], "rocm_arch": ["gfx942"]})
    names = set(sources_for(part, "vllm-rocm"))
    assert {"vllm-0.16.0.tar.gz", "pytorch-v2.9.1.tar.gz", "triton-3.5.1.tar.gz"} <= names, (
        "what it needs, too"
    )
    assert not any("0.26.0" in name or "2.11.0" in name for name in names)
    assert set(sources_for(part, "triton-llvm")) == {f"{MATRIX.values['triton_llvm_commit'][0]}.tar.gz"}
    with pytest.raises(RecipeError, match="no recipe no-such"):
        sources_for(part, "no-such")


def test_the_users_own_mirror_is_no_address_of_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    without = sources_for(MATRIX)
    monkeypatch.setenv("SOURCE_MIRROR", "https://mirror.example/files")
    assert sources_for(MATRIX) == without


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("  - url: https://x.example/a.tar.gz\n", "pinned by no sha256"),
        ("  - git: https://x.example/a.git\n    rev: main\n", "no archive with a sha256"),
        ("  - url: https://x.example/a.tar.gz\n    md5: 0123456789abcdef0123456789abcdef\n", "no sha256"),
    ],
)
def test_a_source_without_a_sha256_is_refused(tmp_path: Path, section: str, words: str) -> None:
    made = project(tmp_path, thing=recipe(section))
    with pytest.raises(RecipeError, match=words) as caught:
        recipe_outputs(made.recipes / "thing", MATRIX)
    assert str(made.recipes / "thing" / "recipe.yaml") in str(caught.value)


def test_one_file_name_for_two_contents_is_refused(tmp_path: Path) -> None:
    section = url_source("https://a.example/v1.tar.gz", "a" * 64) + url_source(
        "https://b.example/v1.tar.gz", "b" * 64, "    target_directory: b\n"
    )
    with pytest.raises(RecipeError, match=r"two sources are named v1\.tar\.gz"):
        needed_sources(project(tmp_path, thing=recipe(section)), MATRIX)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("vllm-0.16.0.tar.gz", "vllm"),
        ("torch_audio-2.9.0.tar.gz", "torch-audio"),
        ("pytorch-v2.9.1.tar.gz", None),
        ("7d5de3033187c8a3bb4d2e322f5462cdaf49808f.tar.gz", None),
        ("v0.24.1.tar.gz", None),
    ],
)
def test_only_names_of_source_distributions_are_asked_of_the_index(name: str, found: str | None) -> None:
    assert project_of(name) == found


# --- one download


def test_a_whole_file(store: Store, web: Web) -> None:
    wanted = source(web.add("/thing.tar.gz", Page(ORIGINAL)))
    seen: list[tuple[int, int | None]] = []
    fetcher = Fetcher(store, listen=lambda name, there, size: seen.append((there, size)))
    (result,) = fetcher.run([wanted])
    assert (result.status, result.place, result.size) == ("fetched", "url", len(ORIGINAL))
    assert store.path(wanted.sha256).read_bytes() == ORIGINAL
    assert store.path(wanted.sha256).stat().st_mode & 0o222 == 0, "read-only"
    assert (store.view / "thing.tar.gz").read_bytes() == ORIGINAL
    assert store.record(wanted.sha256)["url"] == wanted.urls[0]
    assert seen[-1] == (len(ORIGINAL), len(ORIGINAL)) and seen == sorted(seen)
    assert not store.part(wanted.sha256).exists()
    assert web.asked[0][1]["accept-encoding"] == "identity"
    assert fetch_one(store, wanted).status == "kept" and len(web.asked) == 1


def test_a_connection_that_breaks_again_and_again_is_taken_up_where_it_broke(store: Store, web: Web) -> None:
    wanted = source(web.add("/thing.tar.gz", Page(ORIGINAL, breaks=131_072)))
    assert fetch_one(store, wanted).status == "fetched"
    assert web.ranges() == [None, "bytes=131072-", "bytes=262144-", "bytes=393216-"]
    assert {headers.get("if-range") for _, headers in web.asked[1:]} == {'"one"'}
    assert store.path(wanted.sha256).read_bytes() == ORIGINAL


def test_a_server_without_ranges_starts_from_the_front(store: Store, web: Web) -> None:
    page = Page(ORIGINAL, ranges=False, breaks=131_072)
    wanted = source(web.add("/thing.tar.gz", page))
    failed = fetch_one(store, wanted)
    assert failed.status == "failed" and "131072 bytes are kept" in str(failed.error)
    page.breaks = None
    assert fetch_one(store, wanted).status == "fetched"
    assert web.ranges()[-1] == "bytes=131072-" and store.path(wanted.sha256).read_bytes() == ORIGINAL


def test_a_file_that_changed_in_between_is_fetched_whole(store: Store, web: Web) -> None:
    page = Page(OTHER, breaks=131_072, after=ORIGINAL)
    wanted = source(web.add("/thing.tar.gz", page))
    assert fetch_one(store, wanted).status == "fetched"
    assert web.asked[1][1]["if-range"] == '"one"'
    assert store.path(wanted.sha256).read_bytes() == ORIGINAL
    assert not store.rejected.exists()


def test_bytes_of_another_file_before_the_rest_of_the_right_one(store: Store, web: Web) -> None:
    """Two places, one lies about its half: the whole is fetched once more in one piece."""
    wanted = source(web.add("/thing.tar.gz", Page(ORIGINAL)))
    store.part(wanted.sha256).parent.mkdir(parents=True)
    store.part(wanted.sha256).write_bytes(OTHER[:150_000])
    result = fetch_one(store, wanted)
    assert result.status == "fetched" and web.ranges() == ["bytes=150000-", None]
    mixed = OTHER[:150_000] + ORIGINAL[150_000:]
    assert [path.read_bytes() for path in store.rejected.iterdir()] == [mixed], "nothing is deleted"


def test_a_part_that_is_whole_already_is_only_checked(store: Store, web: Web) -> None:
    wanted = source(web.add("/thing.tar.gz", Page(ORIGINAL)))
    store.part(wanted.sha256).parent.mkdir(parents=True)
    store.part(wanted.sha256).write_bytes(ORIGINAL)
    assert fetch_one(store, wanted).status == "fetched"
    assert web.ranges() == [f"bytes={len(ORIGINAL)}-"]


def test_a_part_that_is_longer_than_the_file_is_begun_again(store: Store, web: Web) -> None:
    wanted = source(web.add("/thing.tar.gz", Page(ORIGINAL)))
    store.part(wanted.sha256).parent.mkdir(parents=True)
    store.part(wanted.sha256).write_bytes(ORIGINAL + b"more")
    assert fetch_one(store, wanted).status == "fetched"


def test_a_range_that_was_not_asked_for_is_not_used(store: Store, web: Web) -> None:
    page = Page(ORIGINAL, breaks=131_072, wrong_range=True)
    wanted = source(web.add("/thing.tar.gz", page))
    failed = fetch_one(store, wanted)
    assert failed.status == "failed"
    page.breaks = None
    assert fetch_one(store, wanted).status == "fetched"


@pytest.mark.parametrize("announces", [len(ORIGINAL) + 5000, len(ORIGINAL) - 5000])
def test_a_length_that_is_not_true(store: Store, web: Web, announces: int) -> None:
    wanted = source(web.add("/thing.tar.gz", Page(ORIGINAL, ranges=False, announces=announces)))
    result = fetch_one(store, wanted)
    if announces > len(ORIGINAL):
        assert result.status == "fetched", "every byte came, and the sha256 says so"
    else:
        assert isinstance(result.error, SourceError) and sha256(ORIGINAL[:announces]) in str(result.error)


def test_a_busy_server_is_asked_again(store: Store, web: Web) -> None:
    wanted = source(web.add("/thing.tar.gz", Page(ORIGINAL, busy=1)))
    assert fetch_one(store, wanted).status == "fetched" and len(web.asked) == 2


def test_a_missing_file_is_not_asked_for_again(store: Store, web: Web) -> None:
    failed = fetch_one(store, source(f"{web.address}/none"))
    assert len(web.asked) == 1 and "HTTP 404" in str(failed.error)
    assert not list(store.root.rglob("*.part"))


# --- other bytes


def test_another_sha256_deletes_nothing_and_says_both(store: Store, web: Web) -> None:
    wanted = source(web.add("/thing.tar.gz", Page(OTHER)))
    failed = fetch_one(store, wanted)
    assert failed.status == "failed" and isinstance(failed.error, SourceError)
    assert failed.error.exit_code == 14
    assert sha256(OTHER) in str(failed.error) and sha256(ORIGINAL) in str(failed.error)
    (kept,) = store.rejected.iterdir()
    assert kept.read_bytes() == OTHER and str(kept) in str(failed.error)
    assert not (store.view / "thing.tar.gz").exists() and not store.path(wanted.sha256).exists()


def test_a_proxys_page_is_told_from_a_file(store: Store, web: Web) -> None:
    page = Page(b"<html>Sign in</html>", kind="text/html; charset=utf-8")
    failed = fetch_one(store, source(web.add("/thing.tar.gz", page)))
    assert "20 bytes, text/html" in str(failed.error)


def test_the_next_place_is_asked_after_another_sha256(
    store: Store, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "thing.tar.gz").write_bytes(OTHER)
    monkeypatch.setenv("SOURCE_MIRROR", (tmp_path / "mirror").as_uri())
    result = fetch_one(store, source(web.add("/thing.tar.gz", Page(ORIGINAL))))
    assert (result.status, result.place) == ("fetched", "url")
    assert len(result.notes) == 1 and "mirror" in result.notes[0] and sha256(OTHER) in result.notes[0]
    assert [path.read_bytes() for path in store.rejected.iterdir()] == [OTHER]
    assert (tmp_path / "mirror" / "thing.tar.gz").read_bytes() == OTHER, "the mirror is not ours"


# --- places


def test_a_web_mirror_comes_before_the_public_address(
    store: Store, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.add("/mirror/thing.tar.gz", Page(ORIGINAL))
    monkeypatch.setenv("SOURCE_MIRROR", f"{web.address}/mirror/")
    assert fetch_one(store, source(web.add("/public/thing.tar.gz", Page(ORIGINAL)))).place == "mirror"
    assert [path for path, _ in web.asked] == ["/mirror/thing.tar.gz"]


def test_a_password_in_an_address_is_used_and_never_shown(
    store: Store, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.add("/mirror/thing.tar.gz", Page(ORIGINAL))
    secret = web.address.replace("://", "://user:secret@")
    monkeypatch.setenv("SOURCE_MIRROR", f"{secret}/mirror")
    result = fetch_one(store, source())
    assert result.url == f"{web.address}/mirror/thing.tar.gz"
    assert web.asked[0][1]["authorization"].startswith("Basic ")
    lost = fetch_one(store, source(name="other.tar.gz", content=OTHER))
    assert "HTTP 404" in str(lost.error) and "secret" not in f"{lost} {lost.error}"
    assert not [p for p in store.root.rglob("*.json") if "secret" in p.read_text()]


def simple_index(web: Web, monkeypatch: pytest.MonkeyPatch, listed: str) -> None:
    """A Python index with one source distribution, and pip set to it."""
    page = f'<!DOCTYPE html><a href="/files/thing-1.0.tar.gz#sha256={listed}">thing-1.0.tar.gz</a>'
    web.add("/simple/thing/", Page(page.encode(), kind="text/html"))
    web.add("/files/thing-1.0.tar.gz", Page(ORIGINAL, breaks=131_072))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{web.address}/simple/")


def test_the_python_index_comes_before_the_public_address(
    store: Store, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    simple_index(web, monkeypatch, sha256(ORIGINAL))
    result = fetch_one(store, source(f"{web.address}/public", name="thing-1.0.tar.gz"))
    assert (result.status, result.place) == ("fetched", "index"), result
    assert "bytes=131072-" in web.ranges(), "taken up again, with pip's session too"
    assert "/public" not in [path for path, _ in web.asked]


def test_an_index_that_lists_another_sha256_is_passed_over(
    store: Store, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    simple_index(web, monkeypatch, sha256(OTHER))
    url = web.add("/public/thing-1.0.tar.gz", Page(ORIGINAL))
    result = fetch_one(store, source(url, name="thing-1.0.tar.gz"))
    assert (result.status, result.place) == ("fetched", "url")
    assert sha256(OTHER) in result.notes[0]
    assert "/files/thing-1.0.tar.gz" not in [path for path, _ in web.asked]


def test_a_file_put_into_the_stores_folder_is_taken_in(store: Store) -> None:
    wanted = source("http://127.0.0.1:9/thing.tar.gz")
    store.root.mkdir(parents=True)
    (store.root / "thing.tar.gz").write_bytes(ORIGINAL)
    result = fetch_one(store, wanted, offline=True)
    assert (result.status, result.place) == ("fetched", "folder")
    assert (store.root / "thing.tar.gz").read_bytes() == ORIGINAL, "copied, not moved"


def test_another_file_in_the_stores_folder_is_named_and_left(store: Store) -> None:
    store.root.mkdir(parents=True)
    (store.root / "thing.tar.gz").write_bytes(OTHER)
    failed = fetch_one(store, source(), offline=True)
    assert sha256(OTHER) in str(failed.error) and sha256(ORIGINAL) in str(failed.error)
    assert (store.root / "thing.tar.gz").read_bytes() == OTHER


def test_without_a_network_each_file_has_its_error_and_the_others_come(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}"
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "here.tar.gz").write_bytes(OTHER)
    monkeypatch.setenv("SOURCE_MIRROR", (tmp_path / "mirror").as_uri())
    here = source(content=OTHER, name="here.tar.gz")
    away = source(f"{nowhere}/thing.tar.gz")
    for offline in (False, True):
        lost, found = fetch(store, away, here, offline=offline)
        assert isinstance(lost.error, SourceError) and found.error is None
        said = str(lost.error)
        assert ("not asked: offline" if offline else "Connection refused") in said
        assert str(store.root) in said and "SOURCE_MIRROR" in said and "sources mirror DIR" in said


def test_a_store_that_cannot_be_written_is_said_before_anything_starts(tmp_path: Path, web: Web) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        fetch(Store(tmp_path / "file" / "sources"), source(web.add("/x", Page(ORIGINAL))))
    assert web.asked == []


# --- the store


def kept(store: Store, content: bytes, name: str) -> Source:
    one = source(content=content, name=name)
    store.root.mkdir(parents=True, exist_ok=True)
    (store.root / name).write_bytes(content)
    assert fetch_one(store, one, offline=True).status == "fetched"
    (store.root / name).unlink()
    return one


def test_the_view_that_builds_get_holds_checked_files_only(store: Store) -> None:
    good, bad = kept(store, ORIGINAL, "good.tar.gz"), kept(store, OTHER, "bad.tar.gz")
    assert store.mirror_url() == store.view.as_uri()
    store.path(bad.sha256).chmod(0o644)
    store.path(bad.sha256).write_bytes(b"rot")
    (store.view / "foreign.tar.gz").write_bytes(b"not checked")
    (store.view / "dead.tar.gz").symlink_to("../sha256/no/thing")
    assert store.mirror_url() == store.view.as_uri()
    assert [path.name for path in store.view.iterdir()] == ["good.tar.gz"]
    assert {path.read_bytes() for path in store.rejected.iterdir()} == {b"rot", b"not checked"}
    assert store.holds(good) and not store.holds(bad)


def test_a_view_that_cannot_be_cleaned_is_no_mirror(store: Store) -> None:
    kept(store, ORIGINAL, "good.tar.gz")
    (store.view / "foreign.tar.gz").write_bytes(b"not checked")
    store.rejected.write_text("a file where the folder should be")
    assert store.mirror_url() is None


def test_an_empty_store_is_no_mirror(store: Store) -> None:
    assert store.mirror_url() is None
    assert not store.root.exists()


def test_a_file_with_another_time_and_the_same_bytes_stays(store: Store) -> None:
    good = kept(store, ORIGINAL, "good.tar.gz")
    os.utime(store.path(good.sha256), (1, 1))
    assert store.holds(good) and store.mirror_url()


def test_verify_names_what_is_missing_damaged_orphaned_and_unfinished(store: Store) -> None:
    good, bad = kept(store, ORIGINAL, "good.tar.gz"), kept(store, OTHER, "bad.tar.gz")
    kept(store, b"orphan", "orphan.tar.gz")
    missing, begun = source(content=b"m", name="missing.tar.gz"), source(content=b"u", name="begun.tar.gz")
    forgotten = store.part(sha256(b"forgotten"))
    forgotten.parent.mkdir(parents=True, exist_ok=True)
    forgotten.write_bytes(b"for")
    store.part(begun.sha256).parent.mkdir(parents=True, exist_ok=True)
    store.part(begun.sha256).write_bytes(b"some")
    # The same size and time: only the bytes tell.
    times = store.path(bad.sha256).stat()
    store.path(bad.sha256).chmod(0o644)
    store.path(bad.sha256).write_bytes(bytes(len(OTHER)))
    os.utime(store.path(bad.sha256), ns=(times.st_atime_ns, times.st_mtime_ns))
    needed = [good, bad, missing, begun]

    states = {f.name: f.state for f in store.verify(needed, needed, dry_run=True)}
    assert states == {
        "good.tar.gz": "ok",
        "bad.tar.gz": "damaged",
        "orphan.tar.gz": "orphaned",
        forgotten.name: "orphaned",
        "missing.tar.gz": "missing",
        "begun.tar.gz": "unfinished",
    }
    assert store.path(bad.sha256).exists()
    (damaged,) = (f for f in store.verify(needed, needed) if f.state == "damaged")
    assert damaged.found == sha256(bytes(len(OTHER))) and damaged.path.parent == store.rejected
    assert not (store.view / "bad.tar.gz").is_symlink()
    assert fetch_one(store, bad, offline=True).status == "failed"


def test_export_writes_a_flat_folder_that_sha256sum_can_check(store: Store, tmp_path: Path) -> None:
    one, two = kept(store, ORIGINAL, "one.tar.gz"), kept(store, OTHER, "two.tar.gz")
    lacking = source(content=b"x", name="x.tar.gz")
    folder = tmp_path / "stick"
    assert export(store, [one, two, lacking], folder, dry_run=True).copied == (one, two)
    assert not folder.exists()
    folder.mkdir()
    (folder / "two.tar.gz").write_bytes(b"an old one")
    exported = export(store, [one, two, lacking], folder)
    assert (exported.copied, exported.there, exported.missing) == ((one, two), (), (lacking,))
    assert (folder / "two.tar.gz").read_bytes() == OTHER and not (folder / "two.tar.gz").is_symlink()
    assert (folder / SUMS).read_text() == f"{one.sha256}  one.tar.gz\n{two.sha256}  two.tar.gz\n"
    assert export(store, [one, two], folder).there == (one, two)


def test_an_exported_folder_serves_another_host(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = kept(store, ORIGINAL, "one.tar.gz")
    export(store, [one], tmp_path / "stick")
    monkeypatch.setenv("SOURCE_MIRROR", (tmp_path / "stick").as_uri())
    other_host = Store(tmp_path / "other")
    assert fetch_one(other_host, one, offline=True).place == "mirror"


# --- unpacking


def member(
    name: str, content: bytes | None = b"x", **attributes: object
) -> tuple[tarfile.TarInfo, bytes | None]:
    info = tarfile.TarInfo(name)
    info.size = len(content) if content is not None else 0
    for key, value in attributes.items():
        setattr(info, key, value)
    return info, content


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes | None]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, content in members:
            tar.addfile(info, None if content is None else io.BytesIO(content))
    return path


OUTSIDE = [
    [member("top/../../evil")],
    [member("/top/evil")],
    [member("top/link", None, type=tarfile.SYMTYPE, linkname="../../evil")],
    [member("top/link", None, type=tarfile.SYMTYPE, linkname="/etc/passwd")],
    [member("top/link", None, type=tarfile.LNKTYPE, linkname="../evil")],
    [member("top/null", None, type=tarfile.CHRTYPE)],
    [member("top/pipe", None, type=tarfile.FIFOTYPE)],
]


@pytest.mark.parametrize("members", OUTSIDE)
def test_nothing_leaves_an_archive(tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    made = archive(tmp_path / "a.tar.gz", member("top/good"), *members)
    with pytest.raises(DamagedFileError, match="would leave its folder") as caught:
        unpack(made, "a.tar.gz", tmp_path / "out" / "tree")
    assert "top" in str(caught.value)
    assert not list(tmp_path.rglob("evil"))
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["tree"], "nothing of it stays"


def test_the_one_folder_of_an_archive_is_dropped_and_links_inside_stay(tmp_path: Path) -> None:
    made = archive(
        tmp_path / "a.tar.gz",
        member("top/run", b"#!", mode=0o755),
        member("top/sub/link", None, type=tarfile.SYMTYPE, linkname="../run"),
        member("top/hard", None, type=tarfile.LNKTYPE, linkname="top/run", mode=0o755),
    )
    unpacked = unpack(made, "a.tar.gz", tmp_path / "tree")
    assert (unpacked.files, unpacked.links, unpacked.folder) == (1, 2, "top")
    assert (tmp_path / "tree" / "sub" / "link").read_bytes() == b"#!"
    assert (tmp_path / "tree" / "hard").read_bytes() == b"#!"
    assert os.access(tmp_path / "tree" / "run", os.X_OK)


def test_an_archive_of_several_things_is_unpacked_as_it_is(tmp_path: Path) -> None:
    made = archive(tmp_path / "a.tar.gz", member("a/x"), member("b"))
    assert unpack(made, "a.tar.gz", tmp_path / "tree").folder is None
    assert sorted(path.name for path in (tmp_path / "tree").iterdir()) == ["a", "b"]


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.bz2", "tar.xz", "tar.zst"])
def test_kinds_of_archives(tmp_path: Path, suffix: str) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        tar.addfile(member("top/x", ORIGINAL)[0], io.BytesIO(ORIGINAL))
    pack = {
        "tar": bytes,
        "tar.gz": gzip.compress,
        "tar.bz2": bz2.compress,
        "tar.xz": lzma.compress,
        "tar.zst": zstandard.ZstdCompressor().compress,
    }[suffix]
    packed = pack(plain.getvalue())
    (tmp_path / "a").write_bytes(packed)
    read: list[int] = []
    unpack(tmp_path / "a", f"a.{suffix}", tmp_path / "tree", read.append)
    assert (tmp_path / "tree" / "x").read_bytes() == ORIGINAL
    assert sum(read) <= len(packed) and sum(read) > len(ORIGINAL)

    (tmp_path / "a").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DamagedFileError, match="cannot be unpacked"):
        unpack(tmp_path / "a", f"a.{suffix}", tmp_path / "half")


@pytest.mark.parametrize("cut", [0, 3, 20])
def test_an_archive_that_is_cut_short(tmp_path: Path, cut: int) -> None:
    made = archive(tmp_path / "a.tar.gz", member("top/x", ORIGINAL))
    made.write_bytes(made.read_bytes()[:cut])
    with pytest.raises(DamagedFileError, match="cannot be unpacked"):
        unpack(made, "a.tar.gz", tmp_path / "tree")


def test_two_sources_with_the_same_file(tmp_path: Path) -> None:
    made = archive(tmp_path / "a.tar.gz", member("top/sub/x"))
    unpack(made, "a.tar.gz", tmp_path / "tree")
    unpack(archive(tmp_path / "b.tar.gz", member("top/sub/y")), "b.tar.gz", tmp_path / "tree")
    with pytest.raises(RecipeError, match="the same file"):
        unpack(made, "a.tar.gz", tmp_path / "tree")


def test_kinds_of_archives_that_engines_unpack_and_we_do_not(tmp_path: Path) -> None:
    from channel_tools.sources.unpack import is_archive

    assert is_archive("x.tar.xz") and not is_archive("x.txt")
    with pytest.raises(RecipeError):
        is_archive("x.zip")


def test_what_is_noted_is_json_that_a_person_can_read(store: Store) -> None:
    one = kept(store, ORIGINAL, "one.tar.gz")
    noted = json.loads(store.path(one.sha256).with_suffix(".json").read_text())
    assert noted["name"] == "one.tar.gz" and noted["place"] == "folder" and noted["size"] == len(ORIGINAL)


def test_outputs_come_in_build_order() -> None:
    outputs = outputs_for(Project(ROOT), MATRIX, ["vllm-rocm"])
    packages = [output.package for output in outputs]
    assert packages.index("triton-llvm") < packages.index("triton-rocm") < packages.index("pytorch-rocm")
    assert packages[-1] == "vllm-rocm" and "rocm-canary" not in packages


def test_all_errors_are_told_apart() -> None:
    codes = [cls.exit_code for cls in ChannelToolsError.__subclasses__()]
    assert codes.count(SourceError.exit_code) == 1

"""Finding packages in lock files of any format."""

from __future__ import annotations

from pathlib import Path

import pytest

from channel_tools.channel.care.locks import ExplicitEntry, explicit_entries, file_names, named_in_locks
from channel_tools.model.errors import ChannelError
from channel_tools.model.package import SUFFIXES

FILE = "vllm-rocm-0.26.0-rocm72_gfx942_py312_h1a2b3c4_0.conda"
SHA = "ab" * 32


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f"@EXPLICIT\nhttps://host/internal/linux-64/{FILE}#{SHA}\n", {FILE}),
        (f"  - conda: https://host/internal/linux-64/{FILE}\n    sha256: {SHA}\n", {FILE}),
        (f"- url: 'https://host/linux-64/{FILE}'\n- name: x\n", {FILE}),
        (f'{{"url": "s3://bucket/linux-64/{FILE}", "size": 1}}', {FILE}),
        (
            "https://host/linux-64/a-1%2Bb-0.tar.bz2\nhttps://host/b-2-0.conda",
            {"a-1+b-0.tar.bz2", "b-2-0.conda"},
        ),
        ("https://host/noarch/c-1!2.0-py_0.conda", {"c-1!2.0-py_0.conda"}),
        ("- a-b=1.0=py_0\n  - 'x::c==2=0'\n- d=1\n", {"a-b-1.0-py_0", "c-2-0"}),
        ("a note on .conda files and x.condarc", set()),
    ],
)
def test_names_are_found_in_any_format(text: str, names: set[str]) -> None:
    suffixed = {f"{name}{suffix}" for name in names for suffix in SUFFIXES if not name.endswith(SUFFIXES)}
    assert file_names(text) == suffixed | {name for name in names if name.endswith(SUFFIXES)}


def test_a_lock_that_cannot_be_read_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    lock = tmp_path / "pixi.lock"
    for content in (None, b"nothing", b"\xff\xfe\x00"):
        if content is not None:
            lock.write_bytes(content)
        with pytest.raises(ChannelError):
            named_in_locks([lock])
    lock.write_text(FILE)
    assert named_in_locks([lock]) == {FILE: [str(lock)]}


def test_explicit_lists() -> None:
    url = f"https://host/internal/linux-64/{FILE}"
    md5 = "d41d8cd98f00b204e9800998ecf8427e"
    text = f"# platform: linux-64\n@EXPLICIT\n{url}#{SHA}\n{url}#{md5}\n{url}#sha256:{SHA}\n\n"
    assert explicit_entries(text) == [
        ExplicitEntry(url, SHA),
        ExplicitEntry(url, None, md5),
        ExplicitEntry(url, SHA),
    ]
    assert explicit_entries(f"@EXPLICIT\n/a b/{FILE}\n")[0].url == f"file:///a%20b/{FILE}"
    for wrong in (
        "",
        "@EXPLICIT\n",
        "numpy ==2\n",
        "https://host/x.zip\n",
        f"{url}#sha256:ab\n",
        f"{url}#{SHA}0\n",
    ):
        with pytest.raises(ChannelError):
            explicit_entries(wrong)

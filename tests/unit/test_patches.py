"""Patches: what fits, where, and what is said of what does not; GNU patch is the judge of the results."""

from __future__ import annotations

import difflib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channel_tools.build.patches import apply_patch, read_patch
from channel_tools.model.errors import PatchError

POEM = [f"line {number}" for number in range(1, 41)]


def text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def diff(old: str, new: str, name: str = "poem.txt", context: int = 3) -> str:
    """What ``diff -u`` writes, also where the last line has no end."""
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{name}", f"b/{name}", n=context
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def tree(folder: Path, content: str, name: str = "poem.txt") -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content)
    return folder


def saved(folder: Path, patch: str) -> Path:
    (folder / "0001-x.patch").write_text(patch)
    return folder / "0001-x.patch"


def changed(lines: list[str], at: int, to: str) -> list[str]:
    return [*lines[: at - 1], to, *lines[at:]]


def test_a_hunk_at_its_line_is_applied_and_reported(tmp_path: Path) -> None:
    patch = saved(tmp_path, "Why.\n\n" + diff(text(POEM), text(changed(POEM, 20, "LINE 20"))))
    root = tree(tmp_path / "src", text(POEM))
    (root / "poem.txt").chmod(0o755)
    report = apply_patch(root, patch)
    assert [(h.file, h.hunk, h.line, h.offset) for h in report.hunks] == [("poem.txt", 1, 17, 0)]
    assert report.warnings == []
    assert (root / "poem.txt").read_text() == text(changed(POEM, 20, "LINE 20"))
    assert (root / "poem.txt").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in root.iterdir()] == ["poem.txt"], "no .orig, no .rej"


@pytest.mark.parametrize(("more", "words"), [(5, "5 lines below line 17"), (-4, "4 lines above line 17")])
def test_an_offset_is_applied_with_the_numbers(tmp_path: Path, more: int, words: str) -> None:
    shifted = ["new"] * more + POEM if more > 0 else POEM[-more:]
    patch = saved(tmp_path, diff(text(POEM), text(changed(POEM, 20, "LINE 20"))))
    root = tree(tmp_path / "src", text(shifted))
    report = apply_patch(root, patch)
    assert [hunk.offset for hunk in report.hunks] == [more]
    assert words in report.warnings[0] and f"fits at line {17 + more}" in report.warnings[0]
    assert "LINE 20" in (root / "poem.txt").read_text()


def test_the_offset_of_one_hunk_is_where_the_next_is_looked_for(tmp_path: Path) -> None:
    """A block that stands twice: without the carried offset, the second hunk would go to the wrong copy."""
    block = ["{", "  value", "}"]
    old = [*POEM[:10], *block, *POEM[10:20], *block, *POEM[20:]]
    new = changed(changed(old, 12, "  first"), 25, "  second")
    patch = saved(tmp_path, diff(text(old), text(new), context=1))
    root = tree(tmp_path / "src", text(["new"] * 13 + old))
    assert [hunk.offset for hunk in apply_patch(root, patch).hunks] == [13, 13]
    assert (root / "poem.txt").read_text() == text(["new"] * 13 + new)


def test_what_needs_fuzz_is_an_error(tmp_path: Path) -> None:
    patch = saved(tmp_path, diff(text(POEM), text(changed(POEM, 20, "LINE 20"))))
    root = tree(tmp_path / "src", text(changed(POEM, 17, "another 17")))
    with pytest.raises(PatchError, match="fits only with fuzz 1, at line 17") as caught:
        apply_patch(root, patch)
    assert caught.value.exit_code == 15
    assert "- line 17" in str(caught.value) and "+ another 17" in str(caught.value)
    assert (root / "poem.txt").read_text() == text(changed(POEM, 17, "another 17"))


def test_a_rejected_hunk_shows_what_stands_there(tmp_path: Path) -> None:
    moved = ["new"] * 7 + changed(changed(POEM, 20, "rewritten"), 19, "rewritten too")
    patch = saved(tmp_path, diff(text(POEM), text(changed(POEM, 20, "LINE 20"))))
    root = tree(tmp_path / "src", text(moved))
    with pytest.raises(PatchError) as caught:
        apply_patch(root, patch)
    assert str(caught.value).splitlines() == [
        f"{patch}:3: hunk 1 of poem.txt is rejected",
        "  found: poem.txt, lines 24 to 30 (- is not there, + is there instead):",
        *(f"      line {number}" for number in (17, 18)),
        "    - line 19",
        "    - line 20",
        "    + rewritten too",
        "    + rewritten",
        *(f"      line {number}" for number in (21, 22, 23)),
        "  wanted: at line 17, all lines without + above",
        "  fix: make the patch anew for this source",
    ]


def test_a_patch_that_is_in_the_source_already_says_so(tmp_path: Path) -> None:
    patch = saved(tmp_path, diff(text(POEM), text(changed(POEM, 20, "LINE 20"))))
    root = tree(tmp_path / "src", text(changed(POEM, 20, "LINE 20")))
    with pytest.raises(PatchError, match="is in the source already, at line 17") as caught:
        apply_patch(root, patch)
    assert "leave the patch out" in str(caught.value)


def test_a_patch_of_which_one_hunk_fails_changes_nothing(tmp_path: Path) -> None:
    good = diff(text(POEM), text(changed(POEM, 3, "LINE 3")), "a.txt")
    bad = diff(text(POEM), text(changed(POEM, 20, "LINE 20")), "b.txt")
    root = tree(tree(tmp_path / "src", text(POEM), "a.txt"), "nothing of it\n", "b.txt")
    with pytest.raises(PatchError):
        apply_patch(root, saved(tmp_path, good + bad))
    assert (root / "a.txt").read_text() == text(POEM)


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    patch = saved(tmp_path, diff(text(POEM), text(changed(POEM, 20, "LINE 20"))))
    root = tree(tmp_path / "src", text(POEM))
    assert len(apply_patch(root, patch, dry_run=True).hunks) == 1
    assert (root / "poem.txt").read_text() == text(POEM)


def test_files_are_created_with_gits_mode_and_deleted(tmp_path: Path) -> None:
    patch = saved(
        tmp_path,
        "diff --git a/bin/run b/bin/run\nnew file mode 100755\n--- /dev/null\n+++ b/bin/run\n"
        "@@ -0,0 +1,2 @@\n+#!/bin/sh\n+exit 0\n"
        "diff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
        "-- \n2.39\n",
    )
    root = tree(tmp_path / "src", "gone\n", "old")
    assert [(change.path, change.kind) for change in read_patch(patch)] == [
        ("bin/run", "create"),
        ("old", "delete"),
    ]
    apply_patch(root, patch)
    assert (root / "bin" / "run").read_text() == "#!/bin/sh\nexit 0\n"
    assert (root / "bin" / "run").stat().st_mode & 0o777 == 0o755
    assert not (root / "old").exists()


HEAD = "--- a/poem.txt\n+++ b/poem.txt\n"


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("only words\n", "holds no unified diff"),
        (HEAD, "changes nothing in it"),
        (HEAD + "@@ -1,2 +1,2 @@\n line 1\n-line 2\n", ":6: ends in the hunk of line 3"),
        (HEAD + "@@ -1,2 +1,2 @@\n line 1\nwords\n", ":5: ends in the hunk of line 3"),
        (HEAD + "@@ -1 +1,2 @@\n line 1\n-line 2\n+x\n", "another length than its header says"),
        ("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "names two files"),
        ("--- a/../../x\n+++ b/../../x\n@@ -1 +1 @@\n-a\n+b\n", "no path as a/FILE"),
        ("--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "no path as a/FILE"),
        ("--- a/link/x\n+++ b/link/x\n@@ -1 +1 @@\n-a\n+b\n", "outside the source"),
        ("--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n", "does not have"),
        ("--- /dev/null\n+++ b/poem.txt\n@@ -0,0 +1 @@\n+b\n", "is there already"),
        ("--- a/poem.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-line 1\n", "holds more than it says"),
        ("diff --git a/x b/y\nrename from x\nrename to y\n", "not read here"),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 1\n", "not read here"),
    ],
)
def test_what_is_no_patch_or_no_patch_for_this_tree(tmp_path: Path, patch: str, words: str) -> None:
    root = tree(tmp_path / "src", text(POEM))
    (root / "link").symlink_to(tmp_path)
    (tmp_path / "x").write_text("a\n")
    with pytest.raises(PatchError, match=words):
        apply_patch(root, saved(tmp_path, patch))
    assert (tmp_path / "x").read_text() == "a\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc", "a\nb\nC\n"),
        ("a\nb\nc\n", "a\nb\nC"),
        ("a\r\nb\r\n", "a\r\nB\r\n"),
        ("a\n\n\nb\n", "a\n\nb\n"),
    ],
)
def test_ends_of_lines_are_kept(tmp_path: Path, old: str, new: str) -> None:
    root = tmp_path / "src"
    root.mkdir()
    (root / "poem.txt").write_bytes(old.encode())
    apply_patch(root, saved(tmp_path, diff(old, new)))
    assert (root / "poem.txt").read_bytes() == new.encode()


def test_a_context_line_whose_space_an_editor_cut_off_still_counts(tmp_path: Path) -> None:
    patch = diff("a\n\nb\n", "a\n\nB\n").replace("\n \n", "\n\n")
    root = tree(tmp_path / "src", "a\n\nb\n")
    apply_patch(root, saved(tmp_path, patch))
    assert (root / "poem.txt").read_text() == "a\n\nB\n"


words = st.lists(st.sampled_from(["alpha", "beta", "", "}", "gamma"]), min_size=1, max_size=25)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=words, new=words, ahead=words, drop=st.integers(0, 3), context=st.integers(1, 3))
def test_results_are_those_of_gnu_patch(
    tmp_path: Path, old: list[str], new: list[str], ahead: list[str], drop: int, context: int
) -> None:
    """Any change, applied to a tree that has moved on: the same file, or both refuse."""
    patch = diff(text(old), text(new), context=context)
    if not patch:
        return
    given_text = text([*ahead[:drop], *old, *ahead[: drop // 2]])
    shutil.rmtree(tmp_path, ignore_errors=True)
    ours, theirs = tree(tmp_path / "ours", given_text), tree(tmp_path / "theirs", given_text)
    file = saved(tmp_path, patch)
    done = subprocess.run(
        ["patch", "-p1", "--fuzz=0", "--batch", "--forward", "--reject-file=-", "--input", file],
        cwd=theirs,
        env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        report = apply_patch(ours, file)
    except PatchError as error:
        assert done.returncode != 0, f"{error}\n{done.stdout}\n{patch}\n{given_text}"
        return
    assert done.returncode == 0, f"{done.stdout}\n{patch}\n{given_text}"
    assert (ours / "poem.txt").read_text() == (theirs / "poem.txt").read_text()
    assert any(hunk.offset for hunk in report.hunks) == ("offset" in done.stdout)

"""``rocm-channel pin``: exact environments for each GPU, and whether they still hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from channel_tools.cli import given, options

SHOWN = ("name", "version", "build", "url", "sha256", "size")
"""What the JSON has of each package."""

if TYPE_CHECKING:
    from channel_tools.client.locks.lock_files import Lock
    from channel_tools.client.pinning.check import Checked
    from channel_tools.client.pinning.pin import Pins


def pin(
    files: Annotated[
        list[Path],
        typer.Argument(
            parser=given.path, help="An environment.yml; with --check, pinned files.", metavar="FILES"
        ),
    ],
    archs: options.Archs = None,
    rocm: Annotated[
        str | None,
        typer.Option("--rocm", help="ROCm release, X.Y (default: by the file's label, or this host's)."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output-dir", parser=given.path, help="Folder for the files (default: pinned beside it)."
        ),
    ] = None,
    channel: Annotated[
        str | None,
        typer.Option(
            "--channel", parser=given.text, help="Address of our channel, in the place of the file's."
        ),
    ] = None,
    update: Annotated[
        list[str] | None,
        typer.Option(
            "--update", help="Package to move up, the others only where they must; may be repeated."
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Do these pinned files still hold?")] = False,
    assume: Annotated[
        list[str] | None,
        typer.Option("--assume", help="Virtual package of the target, as __glibc=2.34; may be repeated."),
    ] = None,
    md5: Annotated[bool, typer.Option("--md5", help="MD5 in explicit.txt, for conda before 24.9.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Solve only; write nothing.")] = False,
    json_: options.Json = False,
) -> None:
    """Pin an environment.yml for each --arch: environment.yml, explicit.txt, conda-lock.yml and pixi.lock.

    With --check: exit code 0 when every file holds, 52 when one no longer does.
    """
    if check:
        if archs or rocm or update or output or channel or assume or md5:
            raise typer.BadParameter("takes files only", param_hint="--check")
        _check(files, json_)
        return
    if len(files) != 1:
        raise typer.BadParameter("one environment.yml at a time", param_hint="FILES")
    _pin(files[0], archs or [], rocm, output, channel, update or [], _assumed(assume), md5, dry_run, json_)


def _pin(
    file: Path,
    archs: list[str],
    rocm: str | None,
    output: Path | None,
    channel: str | None,
    update: list[str],
    assumed: dict[str, str],
    md5: bool,
    dry_run: bool,
    json_: bool,
) -> None:
    from channel_tools.client.host import detect_host
    from channel_tools.client.locks.environment_yml import read_environment
    from channel_tools.client.locks.lock_files import read_lock_file
    from channel_tools.client.pinning.files import LOCK, content_of, write_all
    from channel_tools.client.pinning.pin import Locked, default_folder
    from channel_tools.client.pinning.pin import pin as make
    from channel_tools.model.errors import LockError

    folder = output or default_folder(file)
    wanted = read_environment(file)
    before = None
    try:
        before = read_lock_file(folder / LOCK)
    except LockError:
        if update:  # else it is written anew, and there is nothing to compare with
            raise
    locked = None
    if update and before is not None:
        present = {one.arch: one.packages for one in before.environments if one.arch is not None}
        archs = archs or list(present)
        releases = {one.rocm for one in before.environments}
        rocm = rocm or (releases.pop() if len(releases) == 1 else None)
        locked = Locked(present, tuple(update))
    made = make(
        wanted, detect_host(), channel=channel, archs=archs, rocm=rocm, assumed=assumed, locked=locked
    )
    content = content_of(made, folder, md5=md5)
    if not dry_run:
        write_all(folder, content)
    _print(made, before, folder, sorted(content), dry_run, json_)


def _print(
    made: Pins, before: Lock | None, folder: Path, files: list[str], dry_run: bool, json_: bool
) -> None:
    from channel_tools.client.pinning.differences import differences, moved, same_everywhere, table

    known = {(one.arch, one.rocm): one.packages for one in before.environments} if before else {}
    now = {(one.arch.target, one.rocm): one for one in made.environments}
    changes = {one.key: moved(known[machine], one) for machine, one in now.items() if machine in known}
    notes = list(made.notes)
    lost = sorted(f"{arch} with ROCm {rocm}" for arch, rocm in known if arch and (arch, rocm) not in now)
    if lost:
        notes.append(
            f"{folder / 'pixi.lock'} had {', '.join(lost)}, too: name all GPUs in one call, and another "
            "--output-dir for each ROCm release, to keep them"
        )
    found = differences(made.environments)
    if json_:
        options.print_json(
            {
                "version": 1,
                "dry_run": dry_run,
                "folder": str(folder),
                "files": files,
                "environments": [
                    {
                        "name": one.key,
                        "arch": one.arch.target,
                        "rocm": one.rocm,
                        "channels": list(one.bases),
                        "packages": [{key: record[key] for key in SHOWN} for record in one.records],
                    }
                    for one in made.environments
                ],
                "differences": [one.to_json() for one in found],
                "same": same_everywhere(made.environments),
                "changes": {
                    key: [{"name": name, "from": old, "to": new} for name, old, new in some]
                    for key, some in changes.items()
                },
                "notes": notes,
            }
        )
        return
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    for key, some in changes.items():
        for name, old, new in some:
            typer.echo(f"{key}: {name}: {old or 'not there'} -> {new or 'not there'}")
        if not some:
            typer.echo(f"{key}: as before")
    if len(made.environments) > 1:
        for line in table(found):
            typer.echo(line)
        typer.echo(f"{same_everywhere(made.environments)} packages are the same file for all")
    for one in made.environments:
        total = sum(record["size"] or 0 for record in one.records)
        typer.echo(f"{one.title}: {len(one.records)} packages, {total / 1e6:.1f} MB")
    for name in files:
        typer.echo(f"{'would be written' if dry_run else 'written'}: {folder / name}")


def _check(files: list[Path], json_: bool) -> None:
    from channel_tools.client.host import detect_host
    from channel_tools.client.locks.lock_files import read_lock_file
    from channel_tools.client.pinning.check import check_locks
    from channel_tools.model.errors import LockError

    found = check_locks([read_lock_file(path) for path in files], detect_host())
    if json_:
        options.print_json({"version": 1, "environments": [one.to_json() for one in found]})
    else:
        for one in found:
            _print_check(one)
    if not all(one.holds for one in found):
        raise SystemExit(LockError.exit_code)


def _print_check(one: Checked) -> None:
    title = f" ({one.environment.title})" if one.environment.title else ""
    typer.echo(f"{one.lock.path}{title}: {'holds' if one.holds else 'holds no longer'}")
    for state in one.states:
        if state.state != "ok":
            detail = f": {state.detail}" if state.detail else ""
            typer.echo(f"  {state.state}: {state.package.file}{detail}")
    if one.reason is not None:
        typer.echo(f"  does not solve: {one.reason}")
    for note in one.host:
        typer.echo(f"  {note}")
    for state in one.states:
        if state.newer is not None:
            typer.echo(f"  newer: {state.package.name} {' '.join(state.newer)}")
    for note in one.notes:
        typer.echo(f"  note: {note}")


def _assumed(given: list[str] | None) -> dict[str, str]:
    found: dict[str, Any] = {}
    for text in given or ():
        name, mark, version = text.partition("=")
        if not name.startswith("__") or not mark or not version:
            raise typer.BadParameter("is __name=version, as __glibc=2.34", param_hint="--assume")
        found[name] = version
    return found

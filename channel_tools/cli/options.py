"""Options that several commands share, and how they choose a part of the matrix."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from channel_tools.cli import given
from channel_tools.model.errors import ChannelToolsError
from channel_tools.model.matrix import Matrix, check_subsets, read_matrix
from channel_tools.model.project import Project

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Channel = Annotated[Path, typer.Option("--channel", parser=given.path, help="Folder of the channel.")]
Archs = Annotated[list[str] | None, typer.Option("--arch", help="GPU target; may be repeated.")]
Releases = Annotated[list[str] | None, typer.Option("--rocm", help="ROCm release, X.Y; may be repeated.")]
Pythons = Annotated[list[str] | None, typer.Option("--python", help="Python version, X.Y; may be repeated.")]
ToolChannels = Annotated[
    list[str] | None,
    typer.Option("-c", help="Channel with compilers and other build tools, as conda-forge; may be repeated."),
]
ToolchainKind = Annotated[
    str | None,
    typer.Option(
        "--toolchain", help="conda: from the -c channels; host: this host's own (default without -c)."
    ),
]
RocmPath = Annotated[
    Path | None,
    typer.Option(
        "--rocm-path", parser=given.path, help="ROCm root (default: ROCM_PATH, /opt/rocm, the SDK root)."
    ),
]
TrustedRoot = Annotated[
    Path | None,
    typer.Option(
        "--trusted-root",
        help="trusted_root.json of a private Sigstore instance (default: the public one).",
        parser=given.file,
    ),
]

DEFAULT_CHANNEL = Path("channel")


def load_matrix(project: Project) -> Matrix:
    """The checked matrix with its subset files checked against it."""
    matrix = read_matrix(project.matrix_file)
    check_subsets(matrix)
    return matrix


def selected_matrix(
    project: Project,
    archs: Sequence[str] | None,
    releases: Sequence[str] | None,
    pythons: Sequence[str] | None,
) -> Matrix:
    """The part of the matrix that the options name; all of it when they name none."""
    chosen = {"rocm_arch": archs, "rocm_version": releases, "python": pythons}
    return load_matrix(project).restricted({key: values for key, values in chosen.items() if values})


def channel_urls(channels: Sequence[str] | None) -> tuple[str, ...]:
    """Channels as the solver takes them: a folder that is there becomes its URL, a name stays."""
    return tuple(Path(c).resolve().as_uri() if Path(c).is_dir() else c for c in channels or ())


def check_toolchain(kind: str | None) -> None:
    if kind not in (None, "conda", "host"):
        raise typer.BadParameter("is conda or host", param_hint="--toolchain")


def print_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=1))


def error_json(error: ChannelToolsError) -> dict[str, Any]:
    from channel_tools.model.redaction import redact

    texts = {key: getattr(error, key) for key in ("what", "where", "found", "wanted", "fix")}
    return {
        "exit_code": error.exit_code,
        **{key: text and redact(text) for key, text in texts.items()},
    }

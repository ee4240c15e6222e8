"""The command ``rocm-channel``: errors turned into one message and one exit code each."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

import typer

from channel_tools import __version__
from channel_tools.cli import build, host_tools, install, plan, recipes, variants, verify
from channel_tools.model.errors import ChannelToolsError

INTERRUPTED = 130

app = typer.Typer(
    name="rocm-channel",
    help="GPU-arch-matched conda packages for AMD: build, verify, publish and install.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("variants")(variants.variants)
app.add_typer(recipes.app, name="recipes")
app.command("host-tools")(host_tools.host_tools)
app.command("plan")(plan.plan)
app.command("build")(build.build)
app.command("verify")(verify.verify)
app.command("install")(install.install)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rocm-channel {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None: ...


def _terminated(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; end the process with the exit code of the error, if there is one."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        # Typer turns Exit and KeyboardInterrupt into the value returned here.
        code = app(standalone_mode=False)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(code if isinstance(code, int) else 0)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("interrupted: running builds were ended, the channel has whole packages only", err=True)
        sys.exit(INTERRUPTED)
    except ChannelToolsError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        show = getattr(error, "show", None)  # click's own usage errors
        if show is None:
            raise
        show()
        sys.exit(getattr(error, "exit_code", 2))

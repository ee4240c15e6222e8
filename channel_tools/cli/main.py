"""The command ``rocm-channel``: errors turned into one message and one exit code each.

A command's module is imported when the command is asked for, so that starting costs what is used.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from channel_tools import __version__
from channel_tools.model.errors import ChannelToolsError

INTERRUPTED = 130

# Command, and the module below channel_tools.cli that has the function, or the Typer app, of that name.
COMMANDS = {
    "variants": "variants.variants",
    "recipes": "recipes.app",
    "sources": "sources.app",
    "stage": "stage.stage",
    "deps": "deps.deps",
    "bump": "bump.bump",
    "preflight": "preflight.preflight",
    "host-tools": "host_tools.host_tools",
    "plan": "plan.plan",
    "build": "build.build",
    "verify": "verify.verify",
    "channel": "channel.app",
    "publish": "publish.publish",
    "promote": "promote.promote",
    "yank": "yank.yank",
    "unyank": "yank.unyank",
    "prune": "prune.prune",
    "audit": "audit.audit",
    "diff": "diff.diff",
    "attest": "attest.app",
    "upload": "upload.upload",
    "install": "install.install",
    "arch": "arch.arch",
    "configure": "configure.configure",
    "pin": "pin.pin",
    "mirror": "mirror.mirror",
    "env": "env.app",
    "wheels": "wheels.wheels",
    "explain": "explain.explain",
    "doctor": "doctor.doctor",
    "clean": "clean.clean",
    "smoke": "smoke.smoke",
    "watch": "watch.watch",
}


class LazyCommands(TyperGroup):
    """A group that imports the module of a command only when that command is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name].split(".")
        found = getattr(importlib.import_module(f"channel_tools.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            found = _app_of(cmd_name, found)
        command = typer.main.get_command(found)
        command.name = cmd_name
        return command


def _app_of(name: str, function: Any) -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(name)(function)
    return app


app = typer.Typer(
    cls=LazyCommands,
    name="rocm-channel",
    help="GPU-arch-matched conda packages for AMD: build, verify, publish and install.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


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
    if not os.environ.get("SOURCE_MIRROR"):
        os.environ.pop("SOURCE_MIRROR", None)  # empty is no address, and recipes would take it for one
    try:
        # Typer turns Exit and KeyboardInterrupt into the value returned here.
        code = app(standalone_mode=False)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(code if isinstance(code, int) else 0)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("interrupted: what ran was ended, and no half file is left", err=True)
        sys.exit(INTERRUPTED)
    except ChannelToolsError as error:
        from channel_tools.model.redaction import redact

        # A build's error has what explain found in its log as a note.
        message = "\n".join([f"error: {error}", *getattr(error, "__notes__", ())])
        typer.echo(redact(message), err=True)
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

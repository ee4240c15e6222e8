"""The command ``rocm-channel``: errors turned into one message and one exit code each.

A command's module is imported when the command is asked for, so that starting costs what is used.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import io
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

# Command: the module below channel_tools.cli with the function or Typer app of that name, and its line in the
# list of commands.
COMMANDS = {
    "variants": ("variants.variants", "Check variants/ and show the matrix."),
    "recipes": ("recipes.app", "Write each meta.yaml from its recipe.yaml, or check it."),
    "sources": ("sources.app", "What the recipes need from elsewhere, and the store of it."),
    "stage": ("stage.stage", "The real source of a package, checked, unpacked and patched."),
    "deps": ("deps.deps", "Compare what a release requires with recipe.yaml."),
    "bump": ("bump.bump", "What a new release would change in the recipe."),
    "preflight": ("preflight.preflight", "Configure the real source and read each compile command."),
    "host-tools": ("host_tools.host_tools", "Make the local channel of this host's own tools."),
    "plan": ("plan.plan", "Show what there is to build, and in which order."),
    "build": ("build.build", "Build packages, verify each, and add what passes."),
    "verify": ("verify.verify", "Which GPU code is in these packages, wheels and files?"),
    "channel": ("channel.app", "Make a channel, or repair one."),
    "publish": ("publish.publish", "Verify a release and put all of it into a channel, or nothing."),
    "promote": ("promote.promote", "Copy a release from staging to production."),
    "yank": ("yank.yank", "Take builds out of the index."),
    "unyank": ("yank.unyank", "Bring yanked builds back into the index."),
    "prune": ("prune.prune", "Delete what nobody can need any more."),
    "audit": ("audit.audit", "Compare every byte of a channel with what is said about it."),
    "diff": ("diff.diff", "What one channel has and the other has not."),
    "attest": ("attest.app", "Who published this file, and to which channel?"),
    "upload": ("upload.upload", "Send releases to a package server."),
    "install": ("install.install", "Install for this host's GPU and ROCm, or for declared ones."),
    "arch": ("arch.arch", "What this host is, and the line to type for each client."),
    "configure": ("configure.configure", "Make a channel known to conda, mamba or pixi."),
    "pin": ("pin.pin", "Pin an environment.yml for each GPU arch, in four formats."),
    "mirror": ("mirror.mirror", "Fetch the files of locks into channels of their own."),
    "env": ("env.app", "Look after an installed environment."),
    "wheels": ("wheels.wheels", "Put verified wheels into a pip index for each GPU arch."),
    "explain": ("explain.explain", "The cause and the fix, from a log or a traceback."),
    "doctor": ("doctor.doctor", "Check this host before a build, or before use."),
    "clean": ("clean.clean", "Remove what went stale when arch, ROCm or compiler changed."),
    "smoke": ("smoke.smoke", "Run small programs on the GPU, and see that it was this GPU."),
    "watch": ("watch.watch", "Read power, temperature, load and memory of each GPU."),
}


class LazyCommands(TyperGroup):
    """A group that imports the module of a command only when that command is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        place, short_help = COMMANDS[cmd_name]
        module, attribute = place.split(".")
        found = getattr(importlib.import_module(f"channel_tools.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            found = _app_of(cmd_name, found)
        command = typer.main.get_command(found)
        command.name, command.short_help = cmd_name, short_help
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        near = difflib.get_close_matches(args[0], COMMANDS, 1) if args and args[0] not in COMMANDS else []
        if near:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)


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


def _visible(text: str) -> str:
    """Text that may be of a hostile package or server, without what a terminal acts upon."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)


def _unexpected(error: Exception) -> NoReturn:
    """End with one line for what no code foresaw; where it was raised is shown to who asks for it."""
    from channel_tools.model import environment
    from channel_tools.model.redaction import redact

    if environment.read("ROCM_CHANNEL_TRACEBACK"):
        import traceback

        text = "".join(traceback.format_exception(error))
    elif isinstance(error, OSError) and error.filename is not None:
        text = f"error: {error.filename}: {error.strerror}"
    else:
        said = " ".join(str(error).split())
        text = (
            f"internal error: {type(error).__name__}: {said}\n"
            "  fix: please report it, with what ROCM_CHANNEL_TRACEBACK=1 shows"
        )
    typer.echo(_visible(redact(text)), err=True)
    sys.exit(1)


def main() -> None:
    """Run the command line; end the process with the exit code of the error, if there is one."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a log's line or a file's name may be in no encoding at all
        sys.stdout.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, _terminated)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, _terminated)
    if not os.environ.get("SOURCE_MIRROR"):
        os.environ.pop("SOURCE_MIRROR", None)  # empty is no address, and recipes would take it for one
    try:
        # Typer turns Exit and KeyboardInterrupt into the value returned here.
        code = app(standalone_mode=False, color=False if os.environ.get("NO_COLOR") else None)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(code if isinstance(code, int) else 0)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("interrupted: what ran was ended", err=True)
        sys.exit(INTERRUPTED)
    except ChannelToolsError as error:
        from channel_tools.model.redaction import redact

        # A build's error has what explain found in its log as a note.
        message = "\n".join([f"error: {error}", *getattr(error, "__notes__", ())])
        typer.echo(_visible(redact(message)), err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            _unexpected(error)
        typer.echo(f"error: {error.filename or 'the output'}: cannot be written: the disk is full", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left of the output has nowhere to go
        sys.exit(41)
    except Exception as error:
        show = getattr(error, "show", None)  # click's own usage errors
        if show is None:
            _unexpected(error)
        show()
        sys.exit(getattr(error, "exit_code", 2))

"""The configure-only check: what a build of many hours would compile, learnt in seconds.

The recipe's own build script says how CMake is called, CMake configures the recipe's real source, and
``compile_commands.json`` says how each unit would be compiled. Where this host has no PyTorch for ROCm, a
stand-in made of PyTorch's own build files takes its place; docs/preflight.md lists what stays stood in.
"""

from channel_tools.model.errors import PreflightError
from channel_tools.preflight.report import Report
from channel_tools.preflight.request import Request, requests
from channel_tools.preflight.run import run_preflight

__all__ = ["PreflightError", "Report", "Request", "requests", "run_preflight"]

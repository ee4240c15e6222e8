"""Which GPUs a package's binaries are built for, read out of the binaries themselves."""

from __future__ import annotations

from channel_tools.verify.check import packages_under, parse_want, verify_path
from channel_tools.verify.report import FileReport, Report, exit_code

__all__ = ["FileReport", "Report", "exit_code", "packages_under", "parse_want", "verify_path"]

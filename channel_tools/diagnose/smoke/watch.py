"""The sampler alone: until the time is over, or the user ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from channel_tools.diagnose.smoke.recording import Recording
from channel_tools.diagnose.smoke.sampler import Opened, Sampler
from channel_tools.diagnose.smoke.sampler_readings import Sample
from channel_tools.model.errors import ToolMissingError


def watch(
    opened: Opened,
    interval: float,
    seconds: float | None,
    listen: Callable[[Sample], None] | None = None,
) -> Recording:
    """Record the GPUs; Ctrl-C is an end like any other.

    :param seconds: how long; None: until Ctrl-C
    :param listen: called with each sample
    :raises ToolMissingError: no source of readings works here
    """
    if opened.source is None:
        raise no_source(opened)
    sampler = Sampler(opened.source, opened.devices, interval, listen)
    sampler.start()
    try:
        threading.Event().wait(seconds)
    except KeyboardInterrupt:
        pass
    finally:
        sampler.stop()
    return Recording(
        opened.devices,
        opened.source.name,
        opened.refused,
        tuple(sampler.samples),
        sampler.failures,
        sampler.last_failure,
    )


def no_source(opened: Opened) -> ToolMissingError:
    """The error where nothing can be read."""
    return ToolMissingError(
        "no source of GPU readings works on this host",
        found=opened.reasons,
        wanted="one of the library amdsmi, amd-smi, rocm-smi, cards of the driver amdgpu in /sys/class/drm",
        fix="rocm-channel doctor use",
    )


def report(recording: Recording, *, samples: bool = True) -> dict[str, Any]:
    """The JSON of ``rocm-channel watch``.

    :param samples: with every sample
    """
    result = {"version": 1, **recording.head(), "summary": recording.summary()}
    if samples:
        result["readings"] = [sample.to_json() for sample in recording.samples]
    return result

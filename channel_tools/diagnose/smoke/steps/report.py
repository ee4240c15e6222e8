# mypy: ignore-errors
"""What the step programs share: how they say what they found.

Each is run by path with the Python of the environment under test, so that nothing here may import
``channel_tools`` or anything but the standard library. The result is a JSON file:

===============  =====================================================================================
``status``       ``passed``, ``failed`` or ``skipped``
``reason``       one sentence; of the first check that failed, where there is one
``checks``       ``name``, ``passed``, ``detail`` of each
``facts``        versions, targets and speeds, as they were found
``gpu_seconds``  for how long the step kept the GPU computing, by its own clock; 0 where it did not
===============  =====================================================================================
"""

import argparse
import json
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path


class SkippedError(Exception):
    """The environment does not have what the step is for."""


class FailedError(Exception):
    """The step cannot go on."""


class Report:
    """Collects checks and facts.

    :param path: where the JSON file goes
    """

    def __init__(self, path):
        self.path = Path(path)
        self.checks = []
        self.facts = {}
        self.gpu_seconds = 0.0

    def check(self, name, passed, detail=""):
        """Keep the outcome of one check, and print it for the log."""
        self.checks.append({"name": name, "passed": bool(passed), "detail": detail})
        print("ok  " if passed else "FAIL", name, detail, flush=True)
        return bool(passed)

    def write(self, status, reason=""):
        """Write the file whole: a reader never sees half of it."""
        result = {
            "status": status,
            "reason": reason,
            "checks": self.checks,
            "facts": self.facts,
            "gpu_seconds": self.gpu_seconds,
        }
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(result), encoding="utf-8")
        part.replace(self.path)

    def failed_check(self):
        return next((one for one in self.checks if not one["passed"]), None)


def options(description):
    """The options that every step takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--result", required=True, help="JSON file to write")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: for tests only")
    parser.add_argument("--seconds", type=float, default=4.0, help="keep the GPU busy for so long")
    return parser.parse_args()


@contextmanager
def step(path):
    """Run a step, and turn how it ended into its result.

    :param path: where the JSON file goes
    """
    report = Report(path)
    try:
        yield report
    except SkippedError as reason:
        report.write("skipped", str(reason))
    except FailedError as reason:
        report.write("failed", str(reason))
    except Exception as error:
        traceback.print_exc()
        report.write("failed", said(error))
    else:
        failed = report.failed_check()
        report.write(
            "failed" if failed else "passed", f"{failed['name']}: {failed['detail']}" if failed else ""
        )


def said(error):
    """One line of an error, and of the one at its root where another caused it."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    chain = [error] if root is error else [error, root]
    return ", because of ".join(f"{type(one).__name__}: {one}".splitlines()[0][:300] for one in chain)


def need(name):
    """Import a module that the environment may not have.

    :raises SkippedError: it is not installed
    :raises FailedError: it is, and cannot be imported
    """
    import importlib
    import importlib.util

    if importlib.util.find_spec(name) is None:
        raise SkippedError(f"{name} is not installed in {sys.prefix}")
    try:
        return importlib.import_module(name)
    except Exception as error:
        traceback.print_exc()
        raise FailedError(f"{name} cannot be imported: {said(error)}") from None


def need_gpu(torch, report):
    """The GPU that HIP calls device 0, and its target without features: ``gfx90a``.

    :raises FailedError: torch is no HIP build, or sees no GPU
    """
    report.facts["torch"] = torch.__version__
    report.facts["hip"] = torch.version.hip
    if not torch.version.hip:
        built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "the CPU alone"
        raise FailedError(f"torch {torch.__version__} is built for {built}, not for HIP")
    if not torch.cuda.is_available():
        raise FailedError("torch sees no GPU")
    properties = torch.cuda.get_device_properties(0)
    target = properties.gcnArchName.split(":")[0]
    report.facts.update(gpu=properties.name, target=target, full_target=properties.gcnArchName)
    return target

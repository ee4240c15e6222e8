"""What this vLLM was built for, read from the installed package on a machine that may have no GPU."""

import argparse
import importlib.metadata
import importlib.util
import json
import re
import sys
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--version", required=True)
parser.add_argument("--arch", required=True)
wanted = parser.parse_args()

version = importlib.metadata.version("vllm")
assert version == wanted.version, version

# By path: an import of vLLM takes seconds, and looks for a GPU.
(package,) = importlib.util.find_spec("vllm").submodule_search_locations
kernels = Path(package, "third_party", "triton_kernels", "matmul_ogs.py")
assert kernels.is_file(), kernels

evidence = Path(sys.prefix, "share", "rocm-channel", "vllm-rocm", "compile_commands.json")
commands = [unit["command"] for unit in json.loads(evidence.read_text())]
targets = {target for command in commands for target in re.findall(r"--offload-arch=(\S+)", command)}
levels = {level for command in commands for level in re.findall(r"\s-O(\S+)", command)}
print(f"vLLM {version}: {len(commands)} units, targets {sorted(targets)}, levels {sorted(levels)}")
assert targets == {wanted.arch}, targets
assert levels <= {"0", "1", "2", "s"}, levels

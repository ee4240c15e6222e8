"""What this torch was built for, read from the installed package on a machine that may have no GPU."""

import argparse
import importlib.metadata

import torch
import triton

parser = argparse.ArgumentParser()
for name in ("version", "rocm", "arch", "triton"):
    parser.add_argument(f"--{name}", required=True)
wanted = parser.parse_args()


def check(what, found, right):
    print(f"{what}: {found}")
    assert right, f"{what} is {found!r}"


check("version", torch.__version__, torch.__version__ == wanted.version)
check("CUDA", torch.version.cuda, torch.version.cuda is None)
hip = torch.version.hip or ""
check("HIP", hip, hip.startswith(f"{wanted.rocm}."))
# torch.cuda.get_arch_list() is empty where there is no GPU; this is what it reads.
targets = torch._C._cuda_getArchFlags().split()
check("GPU targets", targets, targets == [wanted.arch])
check("Triton", triton.__version__, triton.__version__ == wanted.triton)
requires = importlib.metadata.requires("torch") or []
check("requirements", requires, f"triton=={wanted.triton}" in [text.replace(" ", "") for text in requires])
check("RCCL", torch.distributed.is_nccl_available(), torch.distributed.is_nccl_available())
check("LAPACK", torch._C.has_lapack, torch._C.has_lapack)

left = torch.ones(64, 64) @ torch.ones(64, 64)
check("product on the CPU", left[0, 0].item(), bool((left == 64).all()))

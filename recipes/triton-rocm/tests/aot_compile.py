"""Compiles a kernel for AMD GPUs without one, and reads the target that the code object is for."""

import os
import tempfile

# Before the import: nothing of an earlier Triton may answer from its cache.
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()

import triton
import triton.language as tl
from triton.backends import backends
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# EF_AMDGPU_MACH of the ELF header's e_flags (LLVM's AMDGPU usage guide).
MACHINES = {"gfx90a": 0x3F, "gfx942": 0x4C}


@triton.jit
def add(left, right, total, length, block: tl.constexpr):
    index = tl.program_id(0) * block + tl.arange(0, block)
    inside = index < length
    sums = tl.load(left + index, mask=inside) + tl.load(right + index, mask=inside)
    tl.store(total + index, sums, mask=inside)


assert "amd" in backends, sorted(backends)
for arch, machine in MACHINES.items():
    signature = {"left": "*fp32", "right": "*fp32", "total": "*fp32", "length": "i32", "block": "constexpr"}
    source = ASTSource(fn=add, signature=signature, constexprs={"block": 1024})
    code = triton.compile(source, target=GPUTarget("hip", arch, 64)).asm["hsaco"]
    found = int.from_bytes(code[48:52], "little") & 0xFF
    assert code[:4] == b"\x7fELF", code[:4]
    assert found == machine, f"{arch}: e_flags say 0x{found:x}, not 0x{machine:x}"
    print(f"{arch}: {len(code)} bytes, machine 0x{found:x}")

# mypy: ignore-errors
"""Triton: compiles two kernels from nothing, runs them, and compares with torch on the CPU."""

import os
import tempfile
import time

# A cache of its own: a kernel that an earlier run compiled would prove nothing of this compiler.
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="smoke-triton-")

from report import FailedError, SkippedError, need, need_gpu, options, step

try:
    import triton
    import triton.language as tl
except Exception:  # main() finds out why
    triton = None

COUNT = 1 << 20
BLOCK = 1024
TILE = 32

if triton is not None:

    @triton.jit
    def add_kernel(a, b, out, count, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        inside = at < count
        tl.store(out + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)

    @triton.jit
    def tile_product_kernel(a, b, out, side: tl.constexpr):
        rows = tl.arange(0, side)[:, None]
        columns = tl.arange(0, side)[None, :]
        product = tl.dot(tl.load(a + rows * side + columns), tl.load(b + rows * side + columns))
        tl.store(out + rows * side + columns, product)


def main():
    arguments = options(__doc__)
    with step(arguments.result) as report:
        need("triton")
        torch = need("torch")
        report.facts["triton"] = triton.__version__
        if arguments.device == "cpu":
            raise SkippedError("Triton compiles for GPUs only")
        target = need_gpu(torch, report)
        seen = triton.runtime.driver.active.get_current_target()
        report.facts["triton_target"] = f"{seen.backend}:{seen.arch}"
        if str(seen.arch).split(":")[0] != target:
            raise FailedError(f"Triton would compile for {seen.arch}, the GPU is {target}")

        torch.manual_seed(0)
        a, b = torch.randn(COUNT), torch.randn(COUNT)
        on_gpu = a.cuda(), b.cuda()
        out = torch.empty_like(on_gpu[0])
        start = time.perf_counter()
        add_kernel[(COUNT // BLOCK,)](*on_gpu, out, COUNT, block=BLOCK)
        torch.cuda.synchronize()
        report.facts["compile_seconds"] = round(time.perf_counter() - start, 2)
        report.check("vector sum", torch.equal(out.cpu(), a + b), "equal to the CPU")

        # Small whole numbers: each sum is exact in fp32, so that the order of the additions does not matter.
        tiles = [torch.randint(-4, 5, (TILE, TILE)).half() for _ in range(2)]
        product = torch.empty(TILE, TILE, device="cuda")
        tile_product_kernel[(1,)](tiles[0].cuda(), tiles[1].cuda(), product, side=TILE)
        report.check(
            "tile product",
            torch.equal(product.cpu(), tiles[0].float() @ tiles[1].float()),
            "equal to the CPU",
        )

        start = time.perf_counter()
        while time.perf_counter() - start < arguments.seconds / 2:
            for _ in range(200):
                add_kernel[(COUNT // BLOCK,)](*on_gpu, out, COUNT, block=BLOCK)
            torch.cuda.synchronize()
        report.gpu_seconds = time.perf_counter() - start


if __name__ == "__main__":
    main()

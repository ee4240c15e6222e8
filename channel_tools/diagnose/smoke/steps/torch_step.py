# mypy: ignore-errors
"""PyTorch: HIP version, arch list, a matrix product in each data type, then work that a sampler can see."""

import os
import time

# Read by hipBLASLt when it is loaded; without it TF32 is not used on gfx942, whatever torch is told.
os.environ.setdefault("HIPBLASLT_ALLOW_TF32", "1")

from report import FailedError, need, need_gpu, options, step

SIZE = 512
WORK_SIZE = 8192
HELD_BYTES = 1 << 30

# Largest accepted difference from the product of the same rounded inputs in fp64, relative in the Frobenius
# norm: some times the rounding of the result (2^-11 for fp16, 2^-8 for bf16), and of fp32's sums.
BOUNDS = {"fp64": 1e-12, "fp32": 1e-5, "tf32": 2e-3, "fp16": 2e-3, "bf16": 1e-2, "fp8": 1e-2}

# The formats differ: gfx942 has the FNUZ ones, newer GPUs those of the OCP.
FP8 = {
    "gfx942": "float8_e4m3fnuz",
    "gfx950": "float8_e4m3fn",
    "gfx1200": "float8_e4m3fn",
    "gfx1201": "float8_e4m3fn",
}
TF32 = ("gfx942",)


def relative_error(result, reference):
    return float((result.double().cpu() - reference).norm() / reference.norm())


def compare(report, name, product, reference):
    error = relative_error(product, reference)
    report.check(
        f"matrix product in {name}", error <= BOUNDS[name], f"error {error:.1e}, bound {BOUNDS[name]:.0e}"
    )


def plain_products(torch, report, device, inputs):
    kinds = {"fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    for name, kind in kinds.items():
        a, b = (one.to(kind) for one in inputs)
        compare(report, name, a.to(device) @ b.to(device), a.double() @ b.double())


def tf32_product(torch, report, device, inputs):
    a, b = (one.float() for one in inputs)
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        compare(report, "tf32", a.to(device) @ b.to(device), a.double() @ b.double())
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def fp8_product(torch, report, device, inputs, kind):
    a, b = (one.float().to(kind) for one in inputs)
    one = torch.ones(1, device=device)
    right = b.to(device).t().contiguous().t()  # the scaled product takes its right side by columns
    product = torch._scaled_mm(a.to(device), right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    if isinstance(product, tuple):  # torch before 2.5 gave the largest value as well
        product = product[0]
    compare(report, "fp8", product, a.double() @ b.double())


def work(torch, report, device, size, seconds, held):
    """Multiply until the time is over, with memory held that a sampler can see."""
    memory = torch.ones(held, dtype=torch.uint8, device=device)
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    b = torch.randn(size, size, device=device, dtype=torch.bfloat16) / size**0.5
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    c = a @ b
    wait()
    start = time.perf_counter()
    products = 0
    while time.perf_counter() - start < seconds:
        for _ in range(8):
            c = c @ b
        products += 8
        wait()
        c = c / c.float().norm() * size  # the values neither grow nor vanish
    wait()
    took = time.perf_counter() - start
    report.check("values stay finite under load", bool(torch.isfinite(c).all()) and bool(memory[-1] == 1))
    report.facts["bf16_tflops"] = round(2 * size**3 * products / took / 1e12, 3)
    if device == "cuda":
        report.gpu_seconds = took


def main():
    arguments = options(__doc__)
    with step(arguments.result) as report:
        torch = need("torch")
        device, target = arguments.device, ""
        if device == "cuda":
            target = need_gpu(torch, report)
            archs = torch.cuda.get_arch_list()
            report.facts["arch_list"] = archs
            if target not in [one.split(":")[0] for one in archs]:
                raise FailedError(
                    f"this torch is built for {' '.join(archs) or 'no GPU'}, the GPU is {target}"
                )
            report.check("the arch list has the GPU", True, target)
        torch.manual_seed(0)
        inputs = [torch.randn(SIZE, SIZE, dtype=torch.float64) for _ in range(2)]
        plain_products(torch, report, device, inputs)
        if target in TF32:
            tf32_product(torch, report, device, inputs)
        if target in FP8:
            fp8_product(torch, report, device, inputs, getattr(torch, FP8[target]))
        elif device == "cuda":
            report.facts["fp8"] = f"not tried: {target} has none, or none that is known here"
        if device == "cuda":
            work(torch, report, device, WORK_SIZE, arguments.seconds, HELD_BYTES)
        else:
            work(torch, report, device, 128, min(arguments.seconds, 0.2), 1 << 20)


if __name__ == "__main__":
    main()

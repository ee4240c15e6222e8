# mypy: ignore-errors
"""vLLM: loads a tiny model made here, generates greedily, and compares with transformers on the CPU.

A token counts as right where the CPU, given the same tokens before it, finds no other one better by more than
rounding can explain. Comparing the texts alone would call a run wrong at the first near tie.
"""

import os
import tempfile
import time

SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # In this process, so that a crash of the engine is the crash of this step.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}
os.environ.update(SETTINGS)

from report import need, need_gpu, options, step  # noqa: E402
from tiny_model import CONTEXT, make_model  # noqa: E402

PROMPTS = (
    "the sun rises",
    "a small test",
    "gpu",
    "one, two, three",
    "where is it",
    "look here.",
    "zebra",
    "no",
)
NEW_TOKENS = 48

# In units of the logits, whose spread is 1.6 on these weights. vLLM in fp16 on a CPU chose tokens that were
# behind by 0.010 at most; weights with noise of a tenth of their size made it 4.
TIE = 0.05

# Of all memory. The model needs a few MB; vLLM wants room for its cache, and other jobs want the rest.
MEMORY_SHARE = 0.1
CPU_CACHE_GIB = "1"


def generate(vllm, folder, kind, device):
    extra = {} if device == "cpu" else {"gpu_memory_utilization": MEMORY_SHARE}
    model = vllm.LLM(
        model=folder,
        dtype=kind,
        max_model_len=CONTEXT,
        max_num_seqs=len(PROMPTS),
        enforce_eager=True,
        seed=0,
        **extra,
    )
    sampling = vllm.SamplingParams(temperature=0.0, max_tokens=NEW_TOKENS, ignore_eos=True)
    start = time.perf_counter()
    answers = model.generate(list(PROMPTS), sampling)
    took = time.perf_counter() - start
    return model, [(list(one.prompt_token_ids), list(one.outputs[0].token_ids)) for one in answers], took


def judge(torch, reference, before, made):
    """How many tokens are the CPU's own choice, how many are accepted, the largest lead over a chosen one."""
    with torch.no_grad():
        logits = reference(torch.tensor([before + made])).logits[0, len(before) - 1 : -1]
    chosen = logits[torch.arange(len(made)), torch.tensor(made)]
    leads = logits.max(dim=-1).values - chosen
    equal = int((logits.argmax(dim=-1) == torch.tensor(made)).sum())
    return equal, int((leads <= TIE).sum()), float(leads.max())


def main():
    arguments = options(__doc__)
    if arguments.device == "cpu":
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", CPU_CACHE_GIB)
    with step(arguments.result) as report:
        need("vllm")
        torch = need("torch")
        need("transformers")
        if arguments.device == "cuda":
            need_gpu(torch, report)
        import vllm

        report.facts["vllm"] = vllm.__version__
        kind = "float16" if arguments.device == "cuda" else "float32"
        with tempfile.TemporaryDirectory(prefix="smoke-vllm-") as folder:
            reference = make_model(folder, torch, getattr(torch, kind))
            start = time.perf_counter()
            model, answers, took = generate(vllm, folder, kind, arguments.device)
            report.facts["load_seconds"] = round(time.perf_counter() - start - took, 2)
            report.facts["generate_seconds"] = round(took, 2)
            from vllm.platforms import current_platform

            report.facts["platform"] = type(current_platform).__name__
            if arguments.device == "cuda":
                report.check("vLLM runs on ROCm", current_platform.is_rocm(), report.facts["platform"])
            total = sum(len(made) for _, made in answers)
            report.check("all tokens came", total == len(PROMPTS) * NEW_TOKENS, f"{total} tokens")
            outcomes = [judge(torch, reference, before, made) for before, made in answers]
            equal, right, lead = (
                sum(o[0] for o in outcomes),
                sum(o[1] for o in outcomes),
                max(o[2] for o in outcomes),
            )
            report.check(
                "greedy tokens agree with the CPU",
                right == total,
                f"{equal} of {total} equal, {right - equal} near ties, largest lead of another {lead:.3g}",
            )
            if arguments.device == "cuda":
                report.gpu_seconds = took
            del model


if __name__ == "__main__":
    main()

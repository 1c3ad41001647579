"""Texts to open: short logs in exact formats, and hostile ones."""


def oom(tried="2.00 GiB"):
    """The message of PyTorch 2.4 to 2.9."""
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total "
        "capacity of 23.64 GiB of which 12.19 MiB is free. Including non-PyTorch memory, this process "
        "has 23.62 GiB memory in use. Of the allocated memory 22.51 GiB is allocated by PyTorch, and "
        "612.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large "
        "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
        "documentation for Memory Management  "
        "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
    )


def bar(step, steps=20):
    full = "█" * (10 * step // steps)
    return f"Epoch 1: {100 * step // steps:3d}%|{full:<10}| {step}/{steps} [00:{step:02d}<00:{steps - step:02d},  1.00it/s]"


def bars(last):
    """A progress bar as it lands in a file: lone carriage returns, no line feed."""
    return "".join("\r" + bar(step) for step in range(last + 1))


WIDE = (
    "2025-11-29 10:15:09,530 INFO étape 1/500 🚂 loss=2.8714\n"
    "2025-11-29 10:15:19,771 ERROR Échec à l’étape 3 🚂💥: " + oom("546.00 MiB") + "\n"
)

BAR = "loading data\n" + bars(7) + oom("1.50 GiB") + "\nTraceback (most recent call last):\n" + bars(9)

STEPS = "".join(f"step {n}/40 loss {3 - n / 40:.4f} grad_norm 1.02\n" for n in range(40))

NAN = STEPS + "".join(f"step {n}/80 loss nan grad_norm nan\n" for n in range(40, 80))

CRASHES = (
    "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace "
    "below might be incorrect.\n"
    "train.sh: line 12: 48213 Segmentation fault      (core dumped) python train.py\n"
    "train.sh: line 12: 48311 Killed                  python train.py\n"
)

HOSTILE = {
    "empty": "",
    "one line feed": "\n",
    "carriage returns only": "\r\r\r\r",
    "CR LF": "step 1\r\n" + oom() + "\r\nstep 2\r\n",
    "mark at the start": "\ufeff" + oom(),
    "NUL and control characters": "\x00\x01\x02 step \x7f\x1b[31m" + oom() + "\x1b[0m\x00",
    "truncated escapes": "\x1b[\x1b[3\x1b]0;title " + oom() + "\x1b[",
    "line separators of Unicode": "a\u2028b\u2029c\x0bd\x0ce\u0085f " + oom(),
    "characters outside the basic plane": "🚂" * 500 + oom() + "💥" * 500,
    "combining characters": "e\u0301\u200d\u202e" * 200 + oom(),
    "a line of 2 MB": "x" * 2_000_000 + oom(),
    "a message repeated 3,000 times": (oom() + "\n") * 3000,
    "huge numbers": oom("99999999999999999999999999.99 GiB") + "\n" + oom("1e309 GiB") + "\n",
    "brackets": "{" * 20_000 + "[" * 20_000 + '{"message": "' + oom() + '"',
}

# A model's config; its first member lies behind wide characters on the same line.
CONFIG = """{"_name_or_path": "é🚂", "architectures": ["LlamaForCausalLM"],
  "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
  "num_hidden_layers": 32, "num_attention_heads": 32,
  "max_position_embeddings": 131072, "vocab_size": 128256, "torch_dtype": "bfloat16"
}
"""

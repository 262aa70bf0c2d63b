"""memory_on_torch.py - peaks of PyTorch on a real device beside those of `vcompress estimate`, as a Markdown table.

    memory_on_torch.py VCOMPRESS

Models come from configurations, with random weights; nothing is downloaded. Two steps of training are run with gradients
that stay (zero_grad(set_to_none=False)), as the estimate has them, and with PyTorch's default, where they are gone in the
forward pass. Allocated: torch.cuda.max_memory_allocated, beside the estimate's peak (of inference that of PyTorch's eager
mode) and workspace. Reserved: max_memory_reserved, beside the blocks of the estimate's allocator. Needs torch with a CUDA
device and transformers. The exit status is 1 if an estimate of what is allocated is off by more than 5 % and 100 MiB."""
import gc
import json
import os
import subprocess
import sys
import tempfile

import torch
import transformers

transformers.logging.set_verbosity_error()

CNN = """input x [batch, 3, 32, 32]
conv conv1 64 kernel=3
relu
conv conv2 128 kernel=3
relu
flatten
linear fc 10
"""


def cnn():
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 128, 3), nn.ReLU(), nn.Flatten(), nn.Linear(100352, 10))


def configs():
    return {
        "BERT-base": transformers.BertConfig(num_labels=2, architectures=["BertForSequenceClassification"]),
        "GPT-2": transformers.GPT2Config(architectures=["GPT2LMHeadModel"]),
        "TinyLlama 1.1B": transformers.LlamaConfig(
            vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
            num_key_value_heads=4, max_position_embeddings=2048, architectures=["LlamaForCausalLM"]),
        "Qwen3 0.6B": transformers.Qwen3Config(
            vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
            num_key_value_heads=8, head_dim=128, max_position_embeddings=40960, tie_word_embeddings=True,
            architectures=["Qwen3ForCausalLM"]),
    }


# model, mode, batch, positions, type of the weights, autocast, checkpointing by layers
CASES = [
    ("SimpleConvNet", "train", 64, 0, "f32", False, False),
    ("SimpleConvNet", "train", 512, 0, "f32", False, False),
    ("BERT-base", "train", 16, 128, "f32", False, False),
    ("BERT-base", "train", 16, 512, "f32", True, False),
    ("BERT-base", "infer", 32, 512, "f16", False, False),
    ("GPT-2", "train", 8, 512, "f32", False, False),
    ("GPT-2", "train", 8, 1024, "f32", True, True),
    ("TinyLlama 1.1B", "infer", 1, 2048, "bf16", False, False),
    ("TinyLlama 1.1B", "train", 2, 1024, "f32", False, False),
    ("TinyLlama 1.1B", "train", 4, 1024, "bf16", False, False),
    ("TinyLlama 1.1B", "train", 4, 2048, "f32", True, True),
    ("Qwen3 0.6B", "infer", 4, 1024, "bf16", False, False),
    ("Qwen3 0.6B", "train", 2, 1024, "f32", True, False),
]
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def build(case, config):
    name, mode, batch, positions, dtype, _, recompute = case
    with torch.device("cuda"):
        if config is None:
            model, x = cnn(), torch.randn(batch, 3, 32, 32)
        else:
            model = getattr(transformers, config.architectures[0])(config)
            x = torch.randint(1, config.vocab_size, (batch, positions))
        target = torch.zeros(batch, dtype=torch.long)
    model = model.to(TYPES[dtype])
    model.train(mode == "train")
    if recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model, x, target


def step(case, config, model, x, target, optimizer, to_none):
    name, mode, _, _, _, autocast, _ = case
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast), torch.set_grad_enabled(mode == "train"):
        if mode == "infer":
            model(x, **({} if name == "BERT-base" else {"use_cache": False}))
            return
        if config is None:
            loss = torch.nn.functional.cross_entropy(model(x), target)
        elif name == "BERT-base":
            loss = model(x, labels=target).loss
        else:
            loss = model(x, labels=x, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=to_none)


def peaks(case, config, to_none):
    """Allocated and reserved."""
    model, x, target = build(case, config)
    optimizer = torch.optim.AdamW(model.parameters()) if case[1] == "train" else None
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        step(case, config, model, x, target, optimizer, to_none)
    torch.cuda.synchronize()
    found = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    del model, x, target, optimizer
    gc.collect()
    torch.cuda.empty_cache()
    return found


def estimate(program, case, config):
    name, mode, batch, positions, dtype, autocast, recompute = case
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.txt" if config is None else "config.json")
        with open(path, "w") as f:
            f.write(CNN if config is None else config.to_json_string(use_diff=False))
        command = [program, "estimate", "--json", path, "--mode", mode, "--batch", str(batch), "--dtype", dtype,
                   "--allocator", "pytorch", "--context-overhead", "0"]
        command += ["--seq", str(positions)] if positions else []
        command += ["--optimizer", "adamw", "--foreach"] if mode == "train" else []
        command += ["--amp", "autocast"] if autocast else []
        command += ["--recompute", "layer"] if recompute else []
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def gib(n):
    return "%.3f" % (n / 2.0 ** 30)


def row(program, case, config):
    """A line of the table, and whether the estimate is good."""
    name, mode, batch, positions, dtype, autocast, recompute = case
    report = estimate(program, case, config)
    workspace = report["components"]["workspace"]["bytes"]
    ours = (report["moments"]["peak"] if mode == "train" else report["eager"])["bytes"] + workspace
    blocks = report["reserved"]["peak"]["bytes"] + workspace
    kept, reserved = peaks(case, config, False)
    gone = peaks(case, config, True)[0] if mode == "train" else kept
    off = (ours - kept) / kept
    print("| %s | %s%s%s | %d x %s | %s | %s | %s | %+.1f %% | %s | %s | %s |" %
          (name, mode, ", autocast" if autocast else "", ", checkpointing" if recompute else "", batch, positions or "3x32x32",
           dtype, gib(ours), gib(kept), 100 * off, gib(gone), gib(blocks), gib(reserved)), flush=True)
    return abs(off) <= 0.05 or abs(ours - kept) <= 100 << 20


def main():
    found, good = configs(), True
    print("torch %s, transformers %s, %s; GiB\n" % (torch.__version__, transformers.__version__, torch.cuda.get_device_name()))
    print("| model | mode | batch | weights | estimate | allocated | off | gradients gone | estimate in blocks | reserved |")
    print("|---|---|---|---|---:|---:|---:|---:|---:|---:|")
    for case in CASES:
        try:
            good = row(sys.argv[1], case, found.get(case[0])) and good
        except (RuntimeError, ValueError, subprocess.CalledProcessError) as error:
            print("| %s | %s | FAILED: %s |" % (case[0], case[1], str(error)[:200].replace("\n", " ")), flush=True)
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

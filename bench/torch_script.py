#!/usr/bin/env python3
"""torch_script.py - the same job with torch and safetensors, as one writes it by hand: a yardstick of the benchmarks.

usage: torch_script.py int8|fp16 IN.safetensors OUT.safetensors
"""
import sys

import torch
from safetensors import safe_open
from safetensors.torch import save_file


def main():
    job, source, target = sys.argv[1:4]
    out = {}
    torch.set_grad_enabled(False)
    with safe_open(source, framework="pt") as f:
        for name in f.keys():
            w = f.get_tensor(name)
            if w.dim() < 2:
                out[name] = w
            elif job == "fp16":
                out[name] = w.half()
            else:
                scale = w.abs().amax(1, keepdim=True) / 127
                out[name] = torch.round(w / scale).clamp_(-127, 127).to(torch.int8)
                out[name + ".scale"] = scale
    save_file(out, target, metadata={"format": "pt"})


main()

#!/usr/bin/env python3
"""layers.py VCOMPRESS [TYPE ...]: layers are left out of small models of every family that transformers has, and each layer that stays is still of its kind.

Run by hand, with a new transformers: some twenty minutes. Judge: transformers builds the model of the configuration before and behind, with all that
config.json said, and with the sizes alone; a layer's kind is its modules' classes, shapes, and the values that they hold beside its number.
Refused is right. Prints what is wrong, and at the end how many models were refused and how many kept all kinds.
"""
import inspect
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
import torch
import transformers
from transformers.models.auto import modeling_auto as auto

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
import architectures

transformers.logging.disable_progress_bar()
N = 8
SMALL = dict(vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=N, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
             max_position_embeddings=128, num_experts=4, num_local_experts=4, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
             shared_expert_intermediate_size=32, sliding_window=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, hidden_dim=64, dim=64, n_group=1,
             topk_group=1, image_size=32, patch_size=8, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=16,
             vocab_size_per_layer_input=64, moe_num_experts=4, moe_k=2, mamba_n_heads=4, mamba_d_head=32, mamba_d_state=8, mamba_n_groups=1,
             linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4, global_head_dim=16, n_embd=64, n_head=4)
OWN = {"training", "layer_idx", "layer_id", "layer_number", "block_idx", "idx", "kv_shared_layer_index", "_is_hf_initialized", "layer_index"}
PLAIN = (int, float, bool, str, type(None), tuple, list)


def kinds_of(layer):
    return [(name, type(m).__name__, sorted((k, repr(v)) for k, v in vars(m).items() if k not in OWN and isinstance(v, PLAIN)),
             sorted((k, tuple(p.shape)) for k, p in list(m.named_parameters(recurse=False)) + list(m.named_buffers(recurse=False))))
            for name, m in layer.named_modules()]


def configs_in(config, prefix=""):
    yield prefix, config
    for k, v in vars(config).items():
        if isinstance(v, transformers.PretrainedConfig):
            yield from configs_in(v, prefix + k + ".")


def signature(config, cls, n):
    """{list of layers: [kind of each]}"""
    with torch.device("meta"):
        model = cls(config)
    out = {name: [kinds_of(x) for x in m] for name, m in model.named_modules() if isinstance(m, torch.nn.ModuleList) and len(m) == n}
    for prefix, c in configs_in(config):
        for k, v in vars(c).items():
            if isinstance(v, (list, tuple)) and len(v) == n and not k.startswith("_") and list(v) != list(range(n)):
                out[prefix + k] = list(v)
    return out


def model_class(kind):
    for table in ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_MAPPING_NAMES"):
        name = getattr(auto, table).get(kind)
        if isinstance(name, str) and hasattr(transformers, name):
            return getattr(transformers, name)
    return None


def write(folder, config, cls, words):
    with torch.device("cpu"):
        cls(config).save_pretrained(folder)
    said = json.load(open(folder + "/config.json"))
    if words is not None:
        json.dump(dict(words, model_type=said["model_type"], architectures=said.get("architectures")), open(folder + "/config.json", "w"))


def judge(program, kind, c, count):
    cls = model_class(kind)
    usual = architectures.make(c)
    if cls is None or usual is None:
        return
    words = {k: v for k, v in SMALL.items() if type(architectures.get(usual, k)) in (int, float) or k == "num_hidden_layers" or
             (k in ("num_key_value_heads", "head_dim") and k in inspect.signature(c).parameters)}
    for full in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            try:
                config = c.from_dict(dict(words))
                before = signature(config, cls, N)
                write(folder + "/m", config, cls, None if full else words)
                if signature(c.from_pretrained(folder + "/m"), cls, N) != before:
                    raise ValueError("the saved configuration makes another model")
            except Exception as error:
                count["skipped"] += 1
                print(f"{kind}: not tried: {type(error).__name__} {' '.join(str(error).split())[:110]}")
                return
            if not any(isinstance(v[0], list) for v in before.values()):
                return
            for drop in ([1], [0], [2, 5], [N - 1], [3]):
                out = f"{folder}/o{drop[0]}"
                words_of_run = [program, "prune", "--drop-layers", ",".join(map(str, drop)), folder + "/m", "-o", out, "-q"]
                p = subprocess.run(words_of_run, capture_output=True, text=True)
                asked = re.search(r"--layers (\S+)", p.stderr)
                if asked:  # they are not alike: any can go
                    p = subprocess.run(words_of_run + ["--layers", asked[1]], capture_output=True, text=True)
                if p.returncode:
                    count["refused"] += 1
                    count["reasons"].setdefault(" ".join(p.stderr.split())[-150:], set()).add(kind)
                    continue
                left = [i for i in range(N) if i not in drop]
                try:
                    after = signature(c.from_pretrained(out), cls, len(left))
                except Exception as error:
                    count["wrong"] += 1
                    print(f"{kind} {'full' if full else 'bare'} {drop}: does not build: {' '.join(str(error).split())[:150]}")
                    continue
                bad = [name for name, v in after.items() if name in before and v != [before[name][i] for i in left]]
                gone = [name for name in before if name not in after and isinstance(before[name][0], str)]
                count["wrong" if bad or gone else "kept"] += 1
                if bad or gone:
                    print(f"{kind} {'full' if full else 'bare'} {drop}: other kinds: {bad} {gone}", flush=True)


def main():
    program = os.path.abspath(sys.argv[1])
    count = {"kept": 0, "refused": 0, "wrong": 0, "skipped": 0, "reasons": {}}
    for kind, c in sorted(architectures.classes().items()):
        if len(sys.argv) == 2 or kind in sys.argv[2:]:
            judge(program, kind, c, count)
    for reason, types in sorted(count.pop("reasons").items()):
        print("refused:", reason, "--", " ".join(sorted(types)))
    print("transformers", transformers.__version__, count)
    return count["wrong"] > 0


if __name__ == "__main__":
    sys.exit(main())

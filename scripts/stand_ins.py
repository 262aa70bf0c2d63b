#!/usr/bin/env python3
"""stand_ins.py PROGRAM FOLDER [TYPE,...]: how much more than the model that stands in for it (graph/families/net_stand_in.c) a model of transformers takes,
as words of the rows of arch_classes.inc in FOLDER (arch/). PROGRAM is one that was built with none of these words in that file, which `stand_ins.py - FOLDER`
takes away.

Each type that stands in is made three times with small random sizes, without data (tests/judge/live_tensors.py), and run in f32 and bf16:

    weights=198         percent of the weights that the program counts of config.json alone
    rows=2600           so many rows of the hidden width are weights, too: tables whose sizes the program does not read
    masks=1             bytes of each pair of positions in each layer: masks of all positions that a model keeps as buffers
    mask=1              the same where all layers have one
    live=130, live_half=155    percent of the values that live at the fullest step before there are logits, but for matrices of scores; of f32, of half precision
    logits=105, logits_half=103    percent of the values that live at the fullest step from then on
    scores=16, scores_half=10  bytes of each score of the largest attention, where a module writes attention out as products
    live=unknown        the runs differ too much among themselves, or cannot be made

The third run has MLPs as narrow as the stream. They are the most of all runs; what is not above the program's own count (100, 0) is not there.
What was measured is printed as lines of JSON."""
import contextlib
import inspect
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile

import architectures as A  # first: it silences transformers
import torch
import transformers as T
from transformers.models.auto import modeling_auto as M
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "judge"))
import live_tensors

KINDS = (("causal", M.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES), ("seq2seq", M.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES), ("masked", M.MODEL_FOR_MASKED_LM_MAPPING_NAMES))
WORDS = ("weights", "rows", "masks", "mask", "live", "live_half", "logits", "logits_half", "scores", "scores_half")
RUNS = ((1000, 1, 1021), (8000, 2, 251), (300, 1, 613))  # words, sequences, positions: primes, which no other size is a multiple of
# With random sizes none of its layers attends, and its scan was counted; the tables of Gemma 4's layer inputs are most of so small a model,
# whose values are up to 2.5 times those of the stand-in, while those of its class's sizes are 0.7 to 0.9 of them; the others cannot be made or run without data.
SKIPPED = ("granitemoehybrid", "gemma4_text", "gemma4_unified_text", "dbrx", "dots1", "jetmoe", "longcat_flash")
OPEN = ("head_dim", "num_experts_per_tok", "num_key_value_heads", "n_group", "topk_group")  # sizes that a class leaves open
DROPPED = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")
OPTIONS = "--memory 9999GiB --allocator exact --workspace 0 --context-overhead 0 --runtime pytorch --json".split()


def sizes_of(chance, text, words, shared, narrow):
    """{key: value} of the part for text"""
    h, d, layers = chance.choice((256, 384, 512)), chance.choice((32, 64)), chance.choice((2, 3, 4))
    f, heads = 1 if narrow else chance.choice((2, 3, 4)), h // d
    f *= h
    keys = {"hidden_size": h, "num_attention_heads": heads, "encoder_attention_heads": heads, "decoder_attention_heads": heads, "head_dim": d, "d_kv": d,
            "vocab_size": words, "embedding_size": h, "input_embedding_size": h,
            "num_key_value_heads": chance.choice([n for n in (1, 2, heads // 2) if n]) if shared else heads}
    keys.update({k: layers for k in "num_hidden_layers encoder_layers decoder_layers num_layers num_decoder_layers".split()})
    keys.update({k: f for k in "intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim d_ff ffn_hidden_size".split()})
    keys.update({k: h for k in "moe_intermediate_size shared_expert_intermediate_size expert_ffn_hidden_size".split()})
    keys.update({k: 8 for k in "num_experts num_local_experts n_routed_experts moe_num_experts".split()})
    keys.update({k: 2 for k in "num_experts_per_tok moe_k moe_topk num_experts_per_token".split()})
    keys.update({k: 1 for k in "n_group topk_group".split()}, rotary_dim=d // 2)
    keys.update({k: 2048 for k in "max_position_embeddings n_positions max_source_positions max_target_positions max_encoder_position_embeddings max_decoder_position_embeddings".split()})
    if hasattr(text, "qk_rope_head_dim"):  # MLA has a key of each head
        del keys["head_dim"]
        keys["num_key_value_heads"] = heads
    if hasattr(text, "expand"):  # Mamba's width follows from it
        del keys["intermediate_size"]
    has = {k: A.get(text, getattr(text, "attribute_map", {}).get(k, k)) for k in keys}
    return {getattr(text, "attribute_map", {}).get(k, k): v for k, v in keys.items() if (type(has[k]) is int and has[k] > 0) or (has[k] is None and hasattr(text, k) and k in OPEN) or k == "vocab_size"}


def make(name, model_class, seed, words, shared, narrow=False, wanted=lambda x: True):
    """(configuration, model); None: the configuration is not wanted"""
    chance, c = random.Random(f"{name} {seed}"), CONFIG_MAPPING[name]
    plain = c()
    text = plain.get_text_config()
    part = next((k for k in c.sub_configs if getattr(plain, k, None) is text), None)
    sizes = sizes_of(chance, text, words, shared, narrow)
    first = None
    for without in ("", "head_dim", "num_key_value_heads", "head_dim num_key_value_heads", "head_dim num_key_value_heads intermediate_size",
                    " ".join(k for k in sizes if "layers" not in k and k != "vocab_size"), " ".join(k for k in sizes if k != "vocab_size"), " ".join(sizes)):
        keys = {k: v for k, v in sizes.items() if k not in without.split()}
        try:
            x = c(**{part: type(text)(**keys)}) if part else c(**keys)
            for y in (x, x.get_text_config()):
                for key in ("pad_token_id", "bos_token_id", "eos_token_id"):
                    if not isinstance(getattr(y, key, None), int) or getattr(y, key) >= (getattr(y, "vocab_size", None) or 1 << 30):
                        setattr(y, key, 1)
            for key in DROPPED if x._attn_implementation != "eager" else ():
                if hasattr(x, key):
                    setattr(x, key, 0.0)
            x.architectures = [model_class]
            if not wanted(x):
                return None
            with torch.device("meta"):
                net = getattr(T, model_class)(x)
            net.tie_weights()
            return x, net
        except Exception as e:
            first = first or e
    raise first


class Apart(live_tensors.Count):
    """Counts matrices of scores, which are multiples of the square of the positions, and all else: the most of each, before and behind the first logits."""

    def __init__(self, n, batch, words):
        super().__init__()
        self.square, self.scores, self.scores_peak, self.rest_peak, self.wide = n * n, 0, 0, 0, {}
        self.words, self.logits, self.before, self.after = words, batch * n * words, 0, 0  # before: with scores

    def add(self, tensor):
        key, before = tensor.untyped_storage()._cdata, self.now
        super().add(tensor)
        if self.now != before and tensor.numel() and tensor.untyped_storage().nbytes() // tensor.element_size() % self.square == 0:
            self.wide[key] = self.now - before
            self.scores += self.now - before
        if self.after or (tensor.shape[-1:] == (self.words,) and tensor.numel() == self.logits):
            self.after = max(self.after, self.now)
        else:
            self.before, self.rest_peak = max(self.before, self.now), max(self.rest_peak, self.now - self.scores)
        self.scores_peak = max(self.scores_peak, self.scores)

    def gone(self, key):
        super().gone(key)
        self.scores -= self.wide.pop(key, 0)


def few_words(x):
    """the configuration with so few words that logits are nothing"""
    return {k: few_words(v) if isinstance(v, dict) else 16 if k.endswith("vocab_size") and type(v) is int and v > 16 else v for k, v in x.items()}


def ask(program, x, *words, few=False):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        x.to_json_file(path, use_diff=False)
        if few:
            with open(path) as f:
                text = json.dumps(few_words(json.load(f)))
            with open(path, "w") as f:
                f.write(text)
        return json.loads(subprocess.run([program, *words, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout or "{}")


def run(program, kind, name, model_class, k, seed="", sizes=None):
    """One model: {weights: [ours, theirs], "live": ...}; None: nothing stands in for it"""
    words, batch, n = sizes or RUNS[k]
    def stands_in(x):
        report.update(ask(program, x, "estimate", "--json"))
        return "notes" in report and not report["unknown"] and any("not known here: counted" in s for s in report["notes"])

    report = {}
    made = make(name, model_class, f"{seed}{k}", words, k == 1, k == 2, stands_in)
    if made is None:
        return None
    x, net = made
    text = x.get_text_config()
    held = {id(w): w for w in net.buffers() if w.dtype == torch.float32 and w.numel() % 2048 ** 2}  # no masks of all positions
    held.update({id(w): w for w in net.parameters()})
    row = {"weights": (report["model"]["parameters"], sum(w.numel() for w in held.values())), "width": text.hidden_size,
           "mask": sum(w.nbytes for w in net.buffers() if w.numel() % 2048 ** 2 == 0) / 2048 ** 2}
    row["masks"] = row["mask"] / text.num_hidden_layers
    row["attention"] = x._attn_implementation
    heads = next((h for h in (A.get(text, k) for k in ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads")) if type(h) is int), 1)
    for dtype, end in ((torch.float32, ""), (torch.bfloat16, "_half")):
        x.dtype, net = dtype, net.to(dtype)
        ids = torch.zeros(batch, n, dtype=torch.long, device="meta")
        given = {"input_ids": ids, **({"decoder_input_ids": ids} if kind == "seq2seq" else {})}
        rest = {"use_cache": False} if "use_cache" in inspect.signature(net.forward).parameters else {}
        count = Apart(n, batch, words)
        with mock(count):
            theirs, loaded = live_tensors.inference(net, lambda: net(**given, **rest), given.values())
        ours = []
        for few in (False, True):
            a = ask(program, x, "fit", *OPTIONS, "--batch", str(batch), "--seq", str(n), *(["--size", f"decoder_sequence={n}"] if kind == "seq2seq" else []), few=few)
            own = a["components"]["parameters"]["bytes"]
            ours.append(a["devices"][0]["need_bytes"] - own - own // 100)
        row["live" + end] = dict(need_before=ours[1], ours=ours[0], theirs=theirs - loaded, before=count.before - loaded, rest=count.rest_peak - loaded,
                                 after=max(count.after - loaded, 0), scores=count.scores_peak / (batch * heads * n * n))
    return row


@contextlib.contextmanager
def mock(count):
    plain, live_tensors.Count = live_tensors.Count, lambda: count
    try:
        yield
    finally:
        live_tensors.Count = plain


def words_of(name, rows):
    """{word: value} of the runs of a type"""
    rows = [r for r in rows if r]
    measured = [(k, r) for k, r in enumerate(rows) if "fail" not in r]
    if not measured:
        return {"live": "unknown"} if rows else {}
    out = {}
    ratios = [r["weights"][1] / r["weights"][0] for _, r in measured]
    if len(ratios) > 1 and min(ratios) > 1.05 and max(ratios) < 1.06 * min(ratios):
        out["weights"] = math.ceil(100 * max(ratios))
    elif max(ratios) > 1.001:
        rows = [math.ceil((r["weights"][1] - r["weights"][0]) / r["width"]) for _, r in measured]
        if max(ratios) > 1.3 and max(rows) > 1.1 * min(rows):
            return {"live": "unknown"}
        out["rows"] = max(rows)
    for word in ("masks", "mask"):
        masks = max(r.get(word, 0) for _, r in measured)
        if masks > 0.9:
            out[word] = math.ceil(masks)
            break
    for end in ("", "_half"):
        runs = [(k, r["live" + end], r["attention"]) for k, r in measured]
        # with shared keys in f32 one kernel is none on either side
        scores = max((r["scores"] for k, r, way in runs if k == 0 or end or way == "eager"), default=0)
        wide = scores > 0.05
        share = [(r["rest"] if wide else r["before"]) / r["need_before"] for _, r, _ in runs]
        if max(share) > 4:
            return {"live": "unknown"}
        logits = [r["after"] / r["ours"] for _, r, _ in runs if r["ours"] > 1.02 * r["need_before"]]
        if max(share) > 1.003:
            out["live" + end] = math.ceil(110 * max(share))  # other sizes than these
        if max(logits, default=0) > 1.003:
            out["logits" + end] = math.ceil(103 * max(logits))
        if wide:
            out["scores" + end] = math.ceil(scores)
    return out


def write(folder, found):
    path = os.path.join(folder, "arch_classes.inc")
    text = open(path).read()
    head, *lines = text.split("\n")
    rows = {m[1]: m for m in (re.fullmatch(r'VC_ARCH\("([^"]+)", "([^"]*)", "([^"]*)"\)', line) for line in lines) if m}
    for name, words in found.items():
        old = rows[name][3].split() if name in rows else []
        new = [w for w in old if w.split("=")[0] not in WORDS] + [f"{k}={v}" for k, v in words.items()]
        rows[name] = (None, name, rows[name][2] if name in rows else "", " ".join(new))
    with open(path, "w") as f:
        f.write("\n".join([head] + ['VC_ARCH("%s", "%s", "%s")' % tuple(rows[k][i] for i in (1, 2, 3)) for k in sorted(rows) if rows[k][2] or rows[k][3] or f'VC_ARCH_LIST("{k}",' in text]
                          + [line for line in lines if not line.startswith("VC_ARCH(")]))


def is_text(name):
    """whether all of the configuration is of the part for text"""
    try:
        x = CONFIG_MAPPING[name]()
        return x.get_text_config() is x
    except Exception:
        return False


def measure(program, name, model_class, kind):
    """a line for each type that stands in"""
    rows = []
    for k in range(len(RUNS)):
        try:
            rows.append(run(program, kind, name, model_class, k))
        except Exception as e:
            rows.append({"fail": f"{type(e).__name__} {e}"[:100]})
    return rows


def main():
    program, folder = sys.argv[1:3]
    chosen = sys.argv[3].split(",") if len(sys.argv) > 3 else []
    if program == "-":
        write(folder, {m: {} for m in re.findall(r'^VC_ARCH\("([^"]+)"', open(os.path.join(folder, "arch_classes.inc")).read(), re.M)})
        return
    found = {}
    for kind, names in KINDS:
        for name, model_class in names.items():
            model_class = model_class if isinstance(model_class, str) else model_class[0]
            if kind == "masked" and model_class.endswith("ForConditionalGeneration"):  # seq2seq has it
                continue
            if (chosen and name not in chosen) or name in SKIPPED or not hasattr(T, model_class) or not is_text(name):
                continue
            rows = measure(program, name, model_class, kind)
            print(json.dumps({"kind": kind, "type": name, "rows": rows}), flush=True)
            for word, value in words_of(name, rows).items():
                own = found.setdefault(name, {})
                own[word] = value if "unknown" in (value, own.get(word)) else max(value, own.get(word, 0))
    write(folder, found)


if __name__ == "__main__":
    main()

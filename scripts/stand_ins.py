#!/usr/bin/env python3
"""stand_ins.py PROGRAM FOLDER [TYPE,...]: how much a model of transformers takes that has no graph (graph/families/net_stand_in.c), as words of the rows of
arch_classes.inc in FOLDER (arch/), each as soon as it is known, so that several may run side by side. A type that has words keeps those of its weights, and all of them where
the new ones are worse: none are found, or a sum is more than WORST times a run. `stand_ins.py - FOLDER` takes all words away, to measure anew with a PROGRAM that is built so.

Each type that stands in is made with random sizes, without data (tests/judge/live_tensors.py), and run in f32 and bf16:

    weights=198         percent of the weights that the program counts of config.json alone
    rows=2600           so many rows of the hidden width are weights, too: tables whose sizes the program does not read
    masks=1             bytes of each pair of positions in each layer: masks of all positions that a model keeps as buffers
    mask=1              the same where all layers have one
    live=h240f40,q40v40;... tenths of a byte beside the weights, of the fullest moments of a run in f32: here 24 for each position and unit of the hidden width with 4 for each
    live_half=...       of the MLP's, or 4 of the heads' width with 4 for each word; the larger sum counts. Of bf16. Behind the semicolon: where heads share keys
    live=unknown        no sum follows the runs, or the model cannot be made

All runs of a type have the same operators, so that what lives behind each of them is a sum of products of sizes, whose factors are found by least squares (none below 0)
from RUNS runs. FRESH further ones, with other numbers of layers, too, raise the factors so far that none is above the sum. What was measured is printed as lines of JSON."""
import contextlib
import fcntl
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
import numpy as np
import scipy.optimize
import torch
import torch.fx.experimental._config
import transformers as T
from transformers.models.auto import modeling_auto as M
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "judge"))
import live_tensors

KINDS = (("causal", M.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES), ("seq2seq", M.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES), ("masked", M.MODEL_FOR_MASKED_LM_MAPPING_NAMES))
WEIGHTS = ("weights", "rows", "masks", "mask")
WORDS = WEIGHTS + ("live", "live_half", "logits", "logits_half", "scores", "scores_half")
WORST = 1.3
RUNS, PAIRS = 16, 4  # runs; how many of them also with two more layers
LAYERS, MORE = (2, 6), (0, 1, 4)  # their layers, the latter where the former do not tell; how many more further ones have
# With random sizes none of its layers attends, and its scan was counted; the tables of Gemma 4's layer inputs are most of so small a model,
# whose values are up to 2.5 times those of the stand-in, while those of its class's sizes are 0.7 to 0.9 of them; the others cannot be made or run without data.
SKIPPED = ("granitemoehybrid", "gemma4_text", "gemma4_unified_text", "dbrx", "dots1", "jetmoe", "longcat_flash")
OPEN = ("head_dim", "num_experts_per_tok", "num_key_value_heads", "n_group", "topk_group")  # sizes that a class leaves open
DROPPED = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")
# Numbers of each position, as net_stand_in.c reads them of config.json. Of an encoder and a decoder small letters are the encoder's positions, capitals the decoder's.
LETTERS = {"h": "hidden width", "f": "width of the MLP", "q": "heads times their size", "k": "heads of keys times their size", "d": "size of a head", "v": "words",
           "e": "chosen experts times their width", "c": "chosen experts times the hidden width", "r": "experts", "g": "width of the shared experts", "o": "1",
           "s": "scores of all heads", "p": "the same, once for all sequences", "m": "pairs of positions", "w": "the same, once for all sequences",
           "x": "scores of attention to the encoder", "y": "the same, once for all sequences", "l": "layers times the hidden width", "j": "layers times experts", "t": "layers times heads of keys times their size"}
LAYERED = "ljtLJT"
KEYS = {"h": "hidden_size|n_embd|d_model|dim|emb_dim",
        "f": "intermediate_size|ffn_hidden_size|n_inner|ffn_dim|ffn_size|dff|dim_ff|decoder_ffn_dim|d_ff|hidden_dim|d_inner",
        "a": "num_attention_heads|n_head|n_heads|num_heads|decoder_attention_heads", "d": "head_dim|kv_channels|d_kv",
        "k": "num_key_value_heads|num_kv_heads|n_head_kv|multi_query_group_num", "v": "vocab_size|padded_vocab_size",
        "e": "moe_intermediate_size|expert_ffn_hidden_size|expert_intermediate_size",
        "c": "num_experts_per_tok|num_experts_per_token|moe_topk|moe_k|top_k_experts|experts_per_token",
        "r": "n_routed_experts|num_experts|num_local_experts|moe_num_experts",
        "g": "shared_expert_intermediate_size|moe_shared_expert_intermediate_size|shared_intermediate_size"}


torch.fx.experimental._config.meta_nonzero_assume_all_nonzero = True  # all positions may choose one expert


def draw(name, k, shared):
    """random sizes; rows and heads in numbers for which the same operators run"""
    chance = random.Random(f"{name} {k} {shared}")
    heads, d = chance.choice((8, 16, 32)), chance.choice((16, 32, 48, 64))
    h = heads * d * chance.choice((1, 1, 2, 3))
    inner = [h * chance.choice((1, 2, 4, 8, 16, 24)) // 4 for _ in range(3)]
    n, m = (2 * int(40 * 25 ** chance.random()) + 1 for _ in range(2))  # 81 to 2,001
    return dict(h=h, heads=heads, d=d, f=inner[0], e=inner[1], g=inner[2], keys=chance.choice((2, heads // 4, heads // 2)) if shared else heads, words=chance.choice((50, 300, 4000, 60000)),
                experts=chance.choice((4, 8, 16)), chosen=chance.choice((1, 2, 3)), batch=chance.choice((2, 3, 4)), n=n, m=m)


def sizes_of(text, r, layers):
    """{key: value} of the part for text"""
    h, d, heads = r["h"], r["d"], r["heads"]
    keys = {"hidden_size": h, "num_attention_heads": heads, "encoder_attention_heads": heads, "decoder_attention_heads": heads, "head_dim": d, "d_kv": d,
            "vocab_size": r["words"], "embedding_size": h, "input_embedding_size": h, "num_key_value_heads": r["keys"],
            "moe_intermediate_size": r["e"], "expert_ffn_hidden_size": r["e"], "shared_expert_intermediate_size": r["g"]}
    keys.update({k: layers for k in "num_hidden_layers encoder_layers decoder_layers num_layers num_decoder_layers".split()})
    keys.update({k: r["f"] for k in "intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim d_ff ffn_hidden_size".split()})
    keys.update({k: r["experts"] for k in "num_experts num_local_experts n_routed_experts moe_num_experts".split()})
    keys.update({k: r["chosen"] for k in "num_experts_per_tok moe_k moe_topk num_experts_per_token".split()})
    keys.update({k: 1 for k in "n_group topk_group".split()}, rotary_dim=d // 2)
    keys.update({k: 2048 for k in "max_position_embeddings n_positions max_source_positions max_target_positions max_encoder_position_embeddings max_decoder_position_embeddings".split()})
    keys.update({"swa_" + k: v for k, v in keys.items()}, v_head_dim=d, swa_v_head_dim=d)
    keys.update({k: layers // 2 for k in "num_sparse_encoder_layers num_sparse_decoder_layers".split()}, encoder_sparse_step=2, decoder_sparse_step=2, full_attention_interval=2, first_k_dense_replace=1)
    kinds = {}
    if hasattr(text, "qk_rope_head_dim"):  # MLA has a key of each head
        del keys["head_dim"]
        keys.update(num_key_value_heads=heads, qk_nope_head_dim=2 * d, qk_rope_head_dim=d, v_head_dim=2 * d)
    if hasattr(text, "expand"):  # Mamba's width follows from it
        del keys["intermediate_size"]
    if hasattr(text, "conv_L_cache"):
        kinds = {"layer_types": (["conv", "full_attention"] * layers)[:layers]}
    has = {k: A.get(text, getattr(text, "attribute_map", {}).get(k, k)) for k in keys}
    return {getattr(text, "attribute_map", {}).get(k, k): v for k, v in keys.items() if (type(has[k]) is int and has[k] > 0) or (has[k] is None and hasattr(text, k) and k in OPEN) or k == "vocab_size"} | kinds


def make(name, model_class, r, layers=LAYERS[0]):
    """(configuration, model)"""
    c = CONFIG_MAPPING[name]
    plain = c()
    text = plain.get_text_config()
    part = next((k for k in c.sub_configs if getattr(plain, k, None) is text), None)
    sizes = sizes_of(text, r, layers)
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
            with torch.device("meta"):
                net = getattr(T, model_class)(x)
            net.tie_weights()
            return x, net
        except Exception as e:
            first = first or e
    raise first


class Series(live_tensors.Count):
    """What lives behind each tensor that an operator gives."""

    def __init__(self):
        super().__init__()
        self.series = []

    def add(self, tensor):
        super().add(tensor)
        self.series.append(self.now)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.nonzero.default and args[0].is_meta and args[0].dim() == 1:  # experts that are chosen, one after the other
            return torch.zeros(1, 1, dtype=torch.long)
        return super().__torch_dispatch__(func, types, args, kwargs)


@contextlib.contextmanager
def mock(count):
    plain, live_tensors.Count = live_tensors.Count, lambda: count
    try:
        yield
    finally:
        live_tensors.Count = plain


def ask(program, x):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        x.to_json_file(path, use_diff=False)
        return json.loads(subprocess.run([program, "estimate", "--json", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout or "{}")


def stands_in(report):
    return "notes" in report and any("not known here: counted" in s for s in report["notes"])


def size(value):
    if isinstance(value, list):
        return sum(size(v) for v in value) // max(1, len(value))
    return value if type(value) is int and value > 0 else 0


def numbers(x, r, kind, layers):
    """{letter: numbers that a run has}"""
    config = x.get_text_config().to_dict()

    def first(keys, other=0):
        return size(next((config[k] for k in keys.split("|") if config.get(k) is not None), 0)) or other
    h = first(KEYS["h"])
    heads = first(KEYS["a"], max(1, h // 64))
    f, d, keys, chosen = first(KEYS["f"], 4 * h), first(KEYS["d"], h // heads), first(KEYS["k"], heads), first(KEYS["c"], 2)
    if config.get("block_auto_adjust_ff_dim"):
        f = int(2 * f // 3 * (config.get("block_ffn_dim_multiplier") or 1))
        f = -(-f // config["block_multiple_of"]) * config["block_multiple_of"]
    if config.get("multi_query") is True and not config.get("new_decoder_architecture"):
        keys = 1
    if first("kv_lora_rank"):
        d, keys = (first("qk_nope_head_dim", 128) + first("qk_rope_head_dim", 64) + first("v_head_dim", 128)) // 2, heads
    of = dict(h=h, f=f, q=heads * d, k=keys * d, t=layers * keys * d, d=d, v=first(KEYS["v"]), o=1, l=h * layers)
    if first(KEYS["r"]) > 1:
        e = first(KEYS["e"], f)
        of.update(e=chosen * e, c=chosen * h, r=first(KEYS["r"]), j=first(KEYS["r"]) * layers, g=first(KEYS["g"], e * first("n_shared_experts|num_shared_experts|moe_num_shared_experts")))
    b, n, m = r["batch"], r["n"], r["m"]
    out = {k: b * n * v for k, v in of.items()}
    out.update(s=b * heads * n * n, p=heads * n * n, m=b * n * n, w=n * n)
    if kind == "seq2seq":
        del out["v"]
        out.update({k.upper(): b * m * v for k, v in of.items()})
        out.update(S=b * heads * m * m, P=heads * m * m, M=b * m * m, W=m * m, X=b * heads * m * n, Y=heads * m * n)
    return out


def run(kind, x, net, r):
    """{"": the series of f32, "_half": of bf16} beside the weights"""
    out = {}
    for dtype, end in ((torch.float32, ""), (torch.bfloat16, "_half")):
        x.dtype, net = dtype, net.to(dtype)
        given = {"input_ids": torch.zeros(r["batch"], r["n"], dtype=torch.long, device="meta")}
        if kind == "seq2seq":
            given["decoder_input_ids"] = torch.zeros(r["batch"], r["m"], dtype=torch.long, device="meta")
        rest = {"use_cache": False} if "use_cache" in inspect.signature(net.forward).parameters else {}
        count = Series()
        with mock(count):
            _, loaded = live_tensors.inference(net, lambda: net(**given, **rest), given.values())
        out[end] = np.array(count.series[len(list(net.parameters()) + list(net.buffers())):], dtype=float) - loaded
    return out


def factors_of(letters, rows, y):
    """the factors of a sum that follows y"""
    a = np.array([[row[c] for c in letters] for row in rows], dtype=float) / y[:, None]
    scale = np.maximum(a.max(axis=0), 1e-30)
    return scipy.optimize.nnls(a / scale, np.ones(len(y)))[0] / scale


def value(moments, row):
    return max(sum(v * row[c] for c, v in of.items()) for of in moments) if moments else 0


def grown(pairs, layers):
    """{letter: bytes} of what stays of each layer; pairs: (numbers of runs with so many layers, layers more, how much more lived)"""
    letters = [c for c in LAYERED if c in pairs[0][0]]
    share = np.array([more / n for _, n, more in pairs])
    if max(share) < 100:
        return {}
    a = np.array([[row[c] / layers for c in letters] for row, _, _ in pairs], dtype=float) / np.maximum(share, 1)[:, None]
    return dict(zip(letters, scipy.optimize.nnls(a, np.ones(len(pairs)))[0]))


def moments_of(rows, tops, series, stays, fresh, fresh_tops):
    """(the moments [{letter: bytes}], the least and the most share of what lives in all runs); rows, fresh: the runs' numbers"""
    letters = [c for c in rows[0] if c not in LAYERED]
    lower = np.array([sum(v * row[c] for c, v in stays.items()) for row in rows])
    found = []
    if series is not None:  # of operators that are nowhere fuller than another one nothing is asked
        kept = []
        for t in np.argsort(-(series / tops[:, None]).sum(axis=0)):
            if (series[:, t] > 0.8 * tops).any() and not any((series[:, t] <= 1.0005 * series[:, u]).all() for u in kept):
                kept.append(t)
        for t in kept:
            of = factors_of(letters, rows, np.maximum(series[:, t] - lower, 1))
            ratio = (np.array([sum(v * row[c] for c, v in zip(letters, of)) for row in rows]) + lower) / series[:, t]
            found.append((abs(ratio - 1).max(), dict(zip(letters, of))))
        found.sort(key=lambda f: f[0])
    good = []
    for of in ({c: math.ceil(1000 * v) / 1000 for c, v in of.items() if v > 0.0005} | stays for off, of in found if off < 0.02):
        if not any(all(v <= 1.005 * o.get(c, 0) for c, v in of.items()) for o in good):
            good = [o for o in good if not all(v <= 1.005 * of.get(c, 0) for c, v in o.items())] + [of]
    short = [k for k, row in enumerate(rows) if value(good, row) < 0.99 * tops[k]]
    if short:  # one sum of all the letters for what the others do not reach
        good.append({**dict(zip(letters, factors_of(letters, rows, tops - lower))), **stays})
    every, all_tops = rows + fresh, list(tops) + fresh_tops
    raised = max(1, max(top / value(good, row) for row, top in zip(every, all_tops)))
    good = [{c: v * raised for c, v in of.items()} for of in good]
    ratios = [value(good, row) / top for row, top in zip(every, all_tops)]
    return good, min(ratios), max(ratios)


def word_of(moments):
    """h240f40,q40v40: tenths of bytes"""
    out = []
    for of in moments:
        whole = {c: math.ceil(10 * v - 0.01) for c, v in of.items() if v > 0.005}
        out.append("".join(f"{c}{v}" for c, v in whole.items()))
    return ",".join(sorted(set(out)))


def weights_of(program, name, model_class):
    """{word: value} of what three models have in weights"""
    out, shares = {}, []
    for k in range(3):
        x, net = make(name, model_class, draw(name, k, False))
        text = x.get_text_config()
        held = {id(w): w for w in net.buffers() if w.dtype == torch.float32 and w.numel() % 2048 ** 2}  # no masks of all positions
        held.update({id(w): w for w in net.parameters()})
        mask = sum(w.nbytes for w in net.buffers() if w.numel() % 2048 ** 2 == 0) / 2048 ** 2
        shares.append((ask(program, x)["model"]["parameters"], sum(w.numel() for w in held.values()), text.hidden_size, mask, mask / text.num_hidden_layers))
    ratios = [s[1] / s[0] for s in shares]
    if min(ratios) > 1.05 and max(ratios) < 1.06 * min(ratios):
        out["weights"] = math.ceil(100 * max(ratios))
    elif max(ratios) > 1.001:
        rows = [math.ceil((s[1] - s[0]) / s[2]) for s in shares]
        if max(ratios) > 1.3 and max(rows) > 1.1 * min(rows):
            return {"live": "unknown"}
        out["rows"] = max(rows)
    for word, place in (("masks", 4), ("mask", 3)):
        masks = max(s[place] for s in shares)
        if masks > 0.9:
            out[word] = math.ceil(masks)
            break
    return out


def runs_of(kind, name, model_class, layers, shared, told):
    """All runs with sizes in which heads share keys, or do not: (numbers, series), further ones, what two more layers had more. told: what has been measured"""
    runs, fresh, pairs = [], [], []
    for k in range(RUNS + len(MORE)):
        r, n = draw(name, k, shared), layers + (0 if k < RUNS else MORE[k - RUNS])
        x, net = make(name, model_class, r, n)
        row = numbers(x, r, kind, n)
        if (row["k"] < row["q"]) in told:  # whatever is asked for
            break
        try:
            got = run(kind, x, net, r)
        except Exception:
            if k < RUNS:
                raise
            continue
        (runs if k < RUNS else fresh).append((row, got))
        if k < PAIRS:
            more = run(kind, *make(name, model_class, r, layers + 2), r)
            pairs.append((row, 2, {end: more[end].max() - got[end].max() for end in got}))
    return runs, fresh, pairs


def sums_of(kind, name, model_class, layers):
    """{"": the sums of f32, "_half": of bf16}, {word: the least and the most share of what lives}"""
    lists, quality = {}, {}  # lists: by whether heads share keys
    for shared in (False, True):
        try:
            runs, fresh, pairs = runs_of(kind, name, model_class, layers, shared, lists)
        except Exception as e:
            quality["fails" + "_shared" * shared] = f"{type(e).__name__} {e}"[:200]
            continue
        if not runs:
            continue
        one_key = runs[0][0]["k"] < runs[0][0]["q"]
        lists[one_key] = {}
        for end in ("", "_half"):
            series = [s[end] for _, s in runs]
            moments, least, most = moments_of([row for row, _ in runs], np.array([s.max() for s in series]), np.array(series) if len({len(s) for s in series}) == 1 else None,
                                              grown([(row, n, more[end]) for row, n, more in pairs], layers), [row for row, _ in fresh], [s[end].max() for _, s in fresh])
            quality["live" + end + "_shared" * one_key] = (round(float(least), 3), round(float(most), 3))
            lists[one_key][end] = word_of(moments) if most < 3 else "unknown"
    return {end: ";".join(lists[k][end] if k in lists else "" for k in (False, True)).rstrip(";") or "unknown" for end in ("", "_half")}, quality


def measure(program, kind, name, model_class, old):
    """{word: value} of a type that stands in, and how well the sums follow its runs; None: nothing stands in for it, or the old words are better"""
    x, _ = make(name, model_class, draw(name, 0, True))
    if not stands_in(ask(program, x)):
        return None, {}
    for layers in LAYERS:
        sums, quality = sums_of(kind, name, model_class, layers)
        most = max((q[1] for q in quality.values() if isinstance(q, tuple)), default=0)
        if most < 1.25:
            break
    words = {"live": "unknown"} if any("unknown" in text for text in sums.values()) else {"live" + end: text for end, text in sums.items()}
    if old and (words["live"] == "unknown" or most > WORST):
        return None, quality
    words.update({k: v for k, v in old.items() if k in WEIGHTS} if old else weights_of(program, name, model_class))
    return words, quality


def rows_of(text):
    return {m[1]: m for m in re.finditer(r'^VC_ARCH\("([^"]+)", "([^"]*)", "([^"]*)"\)$', text, re.M)}


def old_words(folder, name):
    """{word: value} that a type has"""
    with open(os.path.join(folder, "arch_classes.inc")) as f:
        row = rows_of(f.read()).get(name)
    words = dict(w.split("=", 1) for w in row[3].split()) if row else {}
    return {k: v for k, v in words.items() if k in WORDS}


def write(folder, found):
    with open(os.path.join(folder, "arch_classes.inc"), "r+") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        text = f.read()
        f.seek(0)
        f.write(written(text, found))
        f.truncate()


def written(text, found):
    """the text of arch_classes.inc with the words that were found"""
    head, *lines = text.split("\n")
    rows = rows_of(text)
    for name, words in found.items():
        old = rows[name][3].split() if name in rows else []
        new = [w for w in old if w.split("=")[0] not in WORDS] + [f"{k}={v}" for k, v in words.items()]
        rows[name] = (None, name, rows[name][2] if name in rows else "", " ".join(new))
    return "\n".join([head] + ['VC_ARCH("%s", "%s", "%s")' % tuple(rows[k][i] for i in (1, 2, 3)) for k in sorted(rows) if rows[k][2] or rows[k][3] or f'VC_ARCH_LIST("{k}",' in text]
                     + [line for line in lines if not line.startswith("VC_ARCH(")])


def is_text(name):
    """whether all of the configuration is of the part for text"""
    try:
        x = CONFIG_MAPPING[name]()
        return x.get_text_config() is x
    except Exception:
        return False


def main():
    program, folder = sys.argv[1:3]
    chosen = sys.argv[3].split(",") if len(sys.argv) > 3 else []
    if program == "-":
        write(folder, {m: {} for m in re.findall(r'^VC_ARCH\("([^"]+)"', open(os.path.join(folder, "arch_classes.inc")).read(), re.M)})
        return
    done = set()
    for kind, names in KINDS:
        for name, model_class in names.items():
            model_class = model_class if isinstance(model_class, str) else model_class[0]
            if kind == "masked" and model_class.endswith("ForConditionalGeneration"):  # seq2seq has it
                continue
            if (chosen and name not in chosen) or name in SKIPPED or name in done or not hasattr(T, model_class) or not is_text(name):
                continue
            old = old_words(folder, name)
            try:
                words, quality = measure(program, kind, name, model_class, old)
            except Exception as e:
                words, quality = None if old else {"live": "unknown"}, f"{type(e).__name__} {e}"[:200]
            if words is not None or quality:
                done.add(name)
                print(json.dumps({"kind": kind, "type": name, "words": words, "quality": quality}), flush=True)
            if words is not None:
                write(folder, {name: words})


if __name__ == "__main__":
    main()

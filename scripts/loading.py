#!/usr/bin/env python3
"""loading.py FOLDER: writes arch_loads.inc to FOLDER (arch/), from the transformers that this Python has.

For each model_type, what its loader does with layers whose weights are codes. The classes are asked, not read. Small models of each are made without
values, in every class that the type has (those that need more than a configuration are not, and their types are missing in ASKED):
    HEADS    linear layers whose weight is that of another module, and in no file
    SHARED   weights in the file that several linear layers have
    RENAMES  linear layers that have another name in memory: each key goes through the conversions of the loader
    CUTS     a conversion cuts the weight of a linear layer in pieces, or makes it of several
    LOST     linear layers whose weight a conversion turns, or finds by its name, so that it does not find codes and scales
    FIRST    the weights of all linear layers are taken away, as packed weights are, and the model is told to give what is missing its first values
    STUCK    the same, and decoded weights do not help, since buffers are called weight
    TABLES   weights of two dimensions that no linear layer has
    FP32     linear layers that bitsandbytes leaves as floats, since the model wants them in f32
    CASTS    linear layers whose weight the model asks for its type, to which it casts what the layer reads: that of bitsandbytes' codes is a
             type of integers (compressed-tensors decodes all weights before the model runs)
    OWN      linear layers of a class of their own; ALL_OWN where there are no others
"""
import ast
import collections
import fnmatch
import functools
import inspect
import itertools
import json
import os
import re
import sys
import textwrap
import warnings
import logging

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
import torch
import transformers
from transformers import conversion_mapping, core_model_loading
from transformers.pytorch_utils import Conv1D
from transformers.quantizers.quantizers_utils import should_convert_module

import architectures
import small_models
from difflib import SequenceMatcher

PARTS = ("weight weight_packed weight_scale weight_shape SCB weight_format weight.absmax weight.quant_map weight.quant_state.bitsandbytes__nf4").split()
LINEAR = (torch.nn.Linear, torch.nn.modules.linear.NonDynamicallyQuantizableLinear)  # what every loader knows
# As vc_name_is_embedding has them.
EMBEDDINGS = "*embed* *Embed* wte.* *.wte.* wpe.* *.wpe.* shared.weight *.shared.weight emb.weight *.emb.weight *_emb.weight".split()


def tied(model):
    """{key in memory: the key it is tied to}, where the configuration says so"""
    for m in model.modules():
        if hasattr(getattr(m, "config", None), "tie_word_embeddings"):
            m.config.tie_word_embeddings = True
    try:
        return model.get_expanded_tied_weights_keys(all_submodels=True)
    except Exception:
        return {}


def linears(model):
    return {name: m for name, m in model.named_modules() if isinstance(m, torch.nn.Linear)}


@functools.cache
def asks_for_type(cls):
    """attributes X of a class whose methods read self.X.weight.dtype, if they do not look for integers there"""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return set()
    if not cls.__module__.startswith("transformers.") or "torch.uint8" in source or "is_floating_point" in source:
        return set()
    found = set()
    for method in ast.walk(ast.parse(source)):
        if isinstance(method, ast.FunctionDef) and "init" not in method.name:
            texts = [ast.unparse(n.value) for n in ast.walk(method) if isinstance(n, ast.Attribute) and n.attr == "dtype"]
            found.update(t[len("self."):-len(".weight")] for t in texts if t.startswith("self.") and t.endswith(".weight"))
    return found - {""}


def casts(model):
    """the names of linear layers whose weight is asked for its type"""
    named = {f"{name}.{x}".lstrip(".") for name, m in model.named_modules() for x in asks_for_type(type(m))}
    return named & linears(model).keys()


def first_values_fail(model):
    """Takes the weights away, for good."""
    for t in list(model.parameters()) + list(model.buffers()):
        t._is_hf_initialized = True
    for m in linears(model).values():
        del m.weight
    try:
        model.initialize_weights()
    except AttributeError as error:
        return "weight" in str(error)
    except Exception:
        pass
    return False


class Names:
    """How keys of the file are called in memory."""

    def __init__(self, model):
        self.model, self.state, self.layers = model, model.state_dict(), linears(model)
        transforms = conversion_mapping.get_model_conversion_mapping(model)
        self.renamings = [t for t in transforms if isinstance(t, core_model_loading.WeightRenaming)]
        self.converters = [t for t in transforms if isinstance(t, core_model_loading.WeightConverter)]

    def file_keys(self, gone):
        try:
            return list(core_model_loading.revert_weight_conversion(self.model, {k: v for k, v in self.state.items() if k not in gone}))
        except Exception:
            return []

    def in_memory(self, key, state):
        """(key, the conversion that makes it or None)"""
        now, source = core_model_loading.rename_source_key(key, self.renamings, self.converters, self.model.base_model_prefix, state)
        if now not in state and key in state:
            return key, None
        return now, next((c for c in self.converters if source in c.source_patterns), None)

    def survive(self, stem, layer):
        """whether codes and scales get to the layer as its weight does"""
        state = collections.ChainMap(dict.fromkeys([f"{layer}.{p}" for p in PARTS], 0), self.state)
        return all(self.in_memory(f"{stem}.{p}", state) == (f"{layer}.{p}", None) for p in PARTS)


def ask_names(model, gone, record):
    wanted = list(getattr(model, "_keep_in_fp32_modules", None) or [])
    record["wanted"].update(wanted)
    names, before, asked = Names(model), (len(record["own"]), len(record["usual"])), casts(model)
    for key in names.file_keys({}):
        now, converted = names.in_memory(key, names.state)
        stem, layer = key.removesuffix(".weight"), now.removesuffix(".weight")
        owner = names.layers.get(layer)
        of_one = converted is None or len(converted.source_patterns) == len(converted.target_patterns) == 1
        if owner is not None and now != layer and (not of_one or stem == key):
            record["cuts"] = record["cuts"] or not of_one
        elif owner is not None and stem != key:
            record["names"].add((stem, layer))
            if now in gone:
                record["heads"].update([stem] if not stem.endswith("lm_head") else [])
                continue
            kind = "own" if type(owner) not in LINEAR else "fp32" if not should_convert_module(layer, wanted) else "casts" if layer in asked else "usual"
            record[kind if names.survive(stem, layer) else "lost"].add(stem)
        elif stem != key and not converted and now in names.state and names.state[now].dim() == 2 and not any(fnmatch.fnmatchcase(key, g) for g in EMBEDDINGS):
            owner = model.get_submodule(layer)
            if type(owner).__name__.endswith("Linear"):  # no module that loaders know, but weights like its
                record["own"].add(stem)
                record["first"] = True
            elif not isinstance(owner, Conv1D):
                record["tables"].add(stem)
    record["all_own"] = record["all_own"] or len(record["own"]) > before[0] and len(record["usual"]) <= before[1] + 1


def ask(kind, c):
    """What the models of a type say; None: none can be made."""
    record = dict(heads=set(), shared=set(), names=set(), tables=set(), own=set(), fp32=set(), casts=set(), lost=set(), wanted=set(), usual=set(), cuts=False, first=False, stuck=False, all_own=False)
    asked = False
    for cls in dict.fromkeys(small_models.model_classes(kind)):
        model = next((m for m in (small_models.on_meta(cls, config) for config in small_models.configs(c)) if m is not None), None)
        if model is None:
            continue
        asked = True
        gone, layers = tied(model), linears(model)
        for key, source in gone.items():
            if key.removesuffix(".weight") in layers:
                record["heads"].add(key.removesuffix(".weight"))
                if source.removesuffix(".weight") in layers:
                    record["shared"].add(source.removesuffix(".weight"))
        ask_names(model, gone, record)
        keys = model.state_dict().keys()
        if first_values_fail(model):
            record["first"] = True
            record["stuck"] = record["stuck"] or any(n.rpartition(".")[2] == "weight" and n in keys for n, _ in model.named_buffers())
    return record if asked else None


# ---- short forms ----
def parts(name):
    return name.split(".") if name else []


def numbers(name, say):
    return ".".join(say if p.isdigit() else p for p in parts(name))


def shortest(names, others):
    """globs of weights by the shortest ends that none of the others has"""
    found = set()
    for name in names:
        p = parts(numbers(name, "*"))
        ends = [".".join(p[i:]) for i in reversed(range(len(p)))]
        there = lambda end: any(fnmatch.fnmatchcase("." + o, "*." + end) for o in others)
        end = next((e for e in ends if e != "*" and not there(e)), None)
        if end is None:
            return None
        found.update(["*." + end + ".weight"] + [end + ".weight"] * (end == ".".join(p)))
    return found


def by_words(words, names, others):
    """globs of the modules that the model names, where these are called so in the file"""
    match = lambda name, globs: any(fnmatch.fnmatchcase(name + ".weight", g) for g in globs)
    globs = {g for w in words for g in (w + ".*", "*" + w + ".weight") if any(match(n, [g]) for n in names)}
    return globs if all(match(n, globs) for n in names) and not any(match(o, globs) for o in others) else None


def apply(path, rule):
    """As vc_family_rename does: the first place where whole parts match."""
    before, _, behind = rule.partition("=")
    b, p = parts(before), parts(path)
    for i in range(len(p) - len(b) + 1):
        if all(y.isdigit() if x == "#" else x == y for x, y in zip(b, p[i:])):
            n = iter([y for x, y in zip(b, p[i:]) if x == "#"])
            return ".".join(p[:i] + [next(n, "") if x == "#" else x for x in parts(behind)] + p[i + len(b):])
    return path


def same_end(a, b):
    """A name in front may be there or not: models lie in others."""
    return ("." + a).endswith("." + b) or ("." + b).endswith("." + a)


def is_right(pairs, rules):
    for path, want in pairs:
        for rule in rules:
            path = apply(path, rule)
        if not same_end(path, want):
            return False
    return True


def pieces(path, want, wide, counts, left, right):
    """Rules for what is different; wide: in one piece; counts: numbers of these modules stand for all numbers, None: all do;
    left, right: names beside it that are the same"""
    def hashed(name):
        p = parts(name)
        return ["#" if x.isdigit() and (counts is None or i and p[i - 1] in counts) else x for i, x in enumerate(p)]

    a, b = hashed(path), hashed(want)
    spans = [s[1:] for s in SequenceMatcher(None, a, b, autojunk=False).get_opcodes() if s[0] != "equal"]
    if wide and spans:
        spans = [(spans[0][0], spans[-1][1], spans[0][2], spans[-1][3])]
    for i, j, k, m in spans:
        if i == j and i == 0:
            continue  # more in front
        more = left
        while i == j or b[k:m].count("#") > a[i:j].count("#") or more and i and k and a[i - 1] == b[k - 1] and not (a[i - 1] == "#" in a[i:j]):
            if i == 0 or k == 0:
                return
            i, k, more = i - 1, k - 1, max(more - 1, 0)
        if right and j < len(a) and m < len(b):
            j, m = j + 1, m + 1
        yield ".".join(a[i:j]) + "=" + ".".join(b[k:m])


def rules_for(pairs):
    """The shortest rules that do it, or None."""
    layers = {"layers", "layer", "blocks", "block", "h", "resblocks", "stages", "experts"}
    pairs, found = sorted(pairs), []
    for wide, counts, left, right in itertools.product((False, True), (None, layers, ()), range(4), range(2)):
        rules = list(dict.fromkeys(r for a, b in pairs if not same_end(a, b) for r in pieces(a, b, wide, counts, left, right)))
        for order in (sorted(rules, key=lambda r: -len(parts(r.partition("=")[0]))), rules):
            if is_right(pairs, order) and not any(r.count("#") > 2 for r in order):  # one on each side
                for rule in order:
                    less = [r for r in order if r != rule]
                    order = less if is_right(pairs, less) else order
                found.append(order)
                break
    return min(found, key=lambda rules: len(" ".join(rules)), default=None)


def rows_of(kind, record):
    """{what: words}"""
    heads = {"re:(.*\\.)?" + numbers(h, "\\d+").replace(".", "\\.").replace("\\\\", "\\") + "$" if numbers(h, "") != h else h for h in record["heads"]}
    rows = {"HEADS": heads - {"lm_head"}, "SHARED": {"*" + numbers(s, "*") + ".weight" for s in record["shared"]}}
    for what, key in (("TABLES", "tables"), ("OWN", "own"), ("FP32", "fp32"), ("CASTS", "casts"), ("LOST", "lost")):
        others = set().union(*(record[k] for k in ("usual", "own", "tables", "fp32", "casts", "lost") if k != key))
        rows[what] = (what == "FP32" and by_words(record["wanted"], record[key], others)) or shortest(record[key], others) or set()
        if record[key] and not rows[what]:
            print("no ends:", kind, what, sorted(record[key])[:3])
    rows = {what: " ".join(sorted(words)) for what, words in rows.items()}
    if record["cuts"]:
        rows["CUTS"] = "-"
    elif record["names"] and all(same_end(a, b) for a, b in record["names"]):
        front = {(b if len(b) > len(a) else a)[: abs(len(a) - len(b)) - 1] for a, b in record["names"] if a != b}
        rows["RENAMES"] = " ".join(f + "=" for f in sorted(front))  # lists of names then say their ends
    elif record["names"]:
        rules = rules_for(record["names"])
        rows["RENAMES"] = " ".join(rules or [])
        if rules is None:
            print("no rules:", kind, next((a, b) for a, b in sorted(record["names"]) if not same_end(a, b)))
    if record["first"]:
        rows["STUCK" if record["stuck"] else "FIRST"] = "-"
    if record["all_own"]:
        rows["ALL_OWN"], rows["OWN"] = "-", ""
    return {what: words for what, words in rows.items() if words}


def literal(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main():
    groups, asked = {}, []
    for kind, c in sorted(architectures.classes().items()):
        if not list(small_models.model_classes(kind)) or len(sys.argv) > 2 and kind not in sys.argv[2:]:
            continue
        record = ask(kind, c)
        if record is None:
            print("not asked:", kind, flush=True)
            continue
        asked.append(kind)
        rows = rows_of(kind, record)
        if len(sys.argv) > 2:
            print(kind, json.dumps(rows, indent=1))
        for what, words in rows.items():
            groups.setdefault((what, words), []).append(kind)
    for i in range(0, len(asked), 150):
        groups[("ASKED", f"{i // 150}")] = asked[i:i + 150]
    with open(os.path.join(sys.argv[1], "arch_loads.inc"), "w") as f:
        f.write(f"/* Made by scripts/loading.py of transformers {transformers.__version__}: do not edit. What a row means: arch.h. */\n")
        for (what, words), types in sorted(groups.items(), key=lambda g: (g[0][0], g[1])):
            f.write(f"VC_ARCH_LOADS({what}, {literal(' '.join(types))}, {literal(words)})\n")


if __name__ == "__main__":
    main()

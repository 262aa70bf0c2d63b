#!/usr/bin/env python3
"""architectures.py FOLDER: writes arch_classes.inc to FOLDER (arch/), from the transformers that this Python has.

VC_ARCH: for each model_type what its configuration class takes where config.json does not say; and "mlp_has_no_gate=true", which is no key,
where its model, made without memory, has two matrices in each feed-forward part. What scripts/stand_ins.py measured is kept.
VC_ARCH_LIST: for each list with an entry per layer that a class makes where config.json has none, the rule by which it makes it.
The classes are asked, not read: each is made with 8, 12, 23, 24 and 48 layers, then with every other key changed.
What the classes of the models do by a layer's number is no part of this: tests that load models judge that.
"""
import decimal
import importlib
import inspect
import json
import logging
import os
import re
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
import torch
import transformers
from transformers import AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

COUNTS = (8, 12, 23, 24, 48)
# What speaks of layers by their number (the words of arch.c), of every class; and the sizes of those for text.
OF_LAYERS = """mlp_only_layers cross_attention_layers full_attn_idxs moe_layers attn_layer_indices hybrid_layer_ids local_layer_ids
    rope_scaling_layers window_block_indexes first_k_dense_replace num_dense_layers max_window_layers moe_layer_start_index
    num_hash_layers dense_mlp_idx num_kv_shared_layers hidden_size_per_layer_input moe_layer_end_index aligner_num_add_layers
    scale_attn_by_inverse_layer_idx num_first_full_attention_layers num_last_full_attention_layers
    sliding_window_pattern global_attn_every_n_layers full_attention_interval attn_layer_period no_rope_layer_interval
    interleave_moe_layer_step decoder_sparse_step encoder_sparse_step moe_layer_freq moe_layer_interval expert_layer_period
    cross_attention_freq cross_attention_frequency layer_group_size n_layers_per_attn_res_block index_topk_freq""".split()
OF_TEXT = """num_attention_heads num_key_value_heads head_dim max_position_embeddings sliding_window rms_norm_eps layer_norm_eps
    num_experts num_local_experts num_experts_per_tok moe_intermediate_size shared_expert_intermediate_size query_pre_attn_scalar
    attn_logit_softcapping final_logit_softcapping norm_topk_prob attention_bias use_parallel_residual tie_word_embeddings""".split()
OF_FEED_FORWARD = "intermediate_size ffn_hidden_size n_inner ffn_dim decoder_ffn_dim ffn_size dff d_inner".split()
OF_ROPE = "rope_theta rope_type partial_rotary_factor".split()
# Lists, by name, that some class makes of another key: config.json may have that in place of the list.
VALUES = [[0, 1] * 12, ["full_attention", "sliding_attention"] * 12, ["sparse", "dense"] * 12, [1, 7], 5, 3, "3,4,5", True, False]


def classes():
    """{model_type: class}"""
    found = {}
    base = os.path.join(os.path.dirname(transformers.__file__), "models")
    for folder in sorted(os.listdir(base)):
        path = os.path.join(base, folder)
        for name in sorted(os.listdir(path)) if os.path.isdir(path) else []:
            if not re.fullmatch(r"configuration_\w+\.py", name):
                continue
            try:
                module = importlib.import_module(f"transformers.models.{folder}.{name[:-3]}")
            except Exception:
                continue
            for c in vars(module).values():
                if inspect.isclass(c) and issubclass(c, transformers.PretrainedConfig) and c.__module__ == module.__name__:
                    if getattr(c, "model_type", ""):
                        found.setdefault(c.model_type, c)
    return found


def make(c, **keys):
    try:
        return c(**keys)
    except Exception:
        return None


def lists(c, n, **keys):
    """{name: list} of what has an entry for each of n layers; None: there is no such configuration"""
    x = make(c, num_hidden_layers=n, **keys)
    if x is None:
        return None
    return {k: list(v) for k, v in vars(x).items() if isinstance(v, (list, tuple)) and len(v) == n and not k.startswith("_")}


RULES = {
    "ALL": lambda i, n, number: False,
    "LAST": lambda i, n, number: (i + 1) % number == 0,
    "FIRST": lambda i, n, number: i % number == 0,
    "LAST_AND_END": lambda i, n, number: (i + 1) % number == 0 or i == n - 1,
    "BEHIND": lambda i, n, number: i >= number,
}


def fit(values, numbers=range(1, 48)):
    """(rule, number, usual, other) that makes all these lists; (UNKNOWN, ...): no rule of ours does"""
    flat = [x for v in values for x in v]
    kinds = list(dict.fromkeys(map(json.dumps, flat)))
    if len(kinds) == 1:
        return "ALL", 0, flat[0], None
    for usual, other in ((a, b) for a in kinds for b in kinds if a != b and len(kinds) == 2):
        for number in numbers:
            for name, rule in RULES.items():
                if all(json.dumps(x) == (other if rule(i, len(v), number) else usual) for v in values for i, x in enumerate(v)):
                    return name, number, json.loads(usual), json.loads(other)
    return "UNKNOWN", 0, None, None


def asked_keys(c):
    """names of keys that the class could look at"""
    try:
        text = inspect.getsource(c)
    except Exception:
        text = ""
    names = set(re.findall(r'kwargs\.(?:pop|get)\(\s*"(\w+)"', text)) | set(re.findall(r'getattr\(self, "(\w+)"', text))
    return sorted(names | {k for k, v in vars(make(c)).items() if v is None or isinstance(v, (int, bool))} - {"num_hidden_layers"})


def list_rows(model_type, c):
    """(type, list, rule, number, key, usual, other, unless, instead)"""
    usual = {n: lists(c, n) for n in COUNTS}
    if any(v is None for v in usual.values()):
        return []
    names = sorted(set.intersection(*(set(v) for v in usual.values())))
    rows = []
    for name in names:
        if usual[24][name] == list(range(24)):
            continue  # numbers of layers, of all
        rule, number, a, b = fit([usual[n][name] for n in COUNTS])
        key, unless, instead = "", [], []
        for other in asked_keys(c) + [n for n in names if n != name]:
            for value in VALUES:
                now = lists(c, 24, **{other: value})
                if other == name or now is None or name not in now or now[name] == usual[24][name]:
                    continue
                if isinstance(value, (list, str)):
                    instead.append(other)
                elif type(value) is int and fit([now[name]], [value])[:2] == (rule, value):
                    key = other
                elif type(value) is int and rule == "ALL" and fit([now[name]], [value])[0] == "BEHIND":
                    pass  # a number of layers, which is edited as such
                elif not (name.startswith("num_") and type(value) is int):
                    unless.append(other)
                break
        if rule == "ALL" and not unless:
            continue
        if rule == "LAST_AND_END" and get(make(c, num_hidden_layers=24, **{name: [a] * 24}), name) == [a] * 23 + [b]:
            rule = "LAST_ENDS"
        rows.append((model_type, name, rule, number, key, a, b, " ".join(unless), " ".join(instead)))
    return rows


def word(value):
    """as JSON without blanks; numbers without a point, which not every locale reads"""
    if isinstance(value, float):
        _, digits, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
        return str(int(value)) if value.is_integer() else "".join(map(str, digits)) + f"e{exponent}"
    return json.dumps(value, separators=(",", ":"))


def get(x, key):
    """of the whole model, where layers may have values of their own"""
    try:
        return getattr(x, key, None)
    except Exception:
        return vars(x).get(key)


def says_nothing(value):
    return value is None or value is False or value == [] or value == {} or (isinstance(value, (int, float)) and value == 0)


def follows(c, key):
    """whether the class computes it from the number of heads, or from the hidden size"""
    x = make(c)
    heads = get(x, "num_attention_heads")
    for other, value in (("num_attention_heads", heads * 2 if isinstance(heads, int) else None),
                         ("hidden_size", get(x, "hidden_size") * 2 if isinstance(get(x, "hidden_size"), int) else None)):
        y = make(c, **{other: value}) if value else None
        if other != key and y is not None and get(y, key) != get(x, key):
            return True
    return False


def rope_of(x):
    """the parameters of full attention"""
    block = get(x, "rope_parameters")
    if not isinstance(block, dict):
        return {}
    return block["full_attention"] if isinstance(block.get("full_attention"), dict) else block


def default_words(c, for_text, has_text):
    x = make(c)
    words = []
    for key in OF_LAYERS + (OF_TEXT if for_text else OF_TEXT[-1:] if has_text else []):
        value = get(x, key)
        if not says_nothing(value) and isinstance(value, (int, float, list)) and not follows(c, key):
            if not (isinstance(value, list) and value == list(range(len(value)))):  # all layers, of which there may be more
                words.append(f"{key}={word(value)}")
    for key in OF_ROPE if for_text else []:
        value = rope_of(x).get(key)
        if value is not None and value not in ("default", 1.0):
            words.append(f"{key}={value if isinstance(value, str) else word(value)}")
    if for_text and has_no_gate(c):
        words.append("mlp_has_no_gate=true")
    return words


def has_no_gate(c):
    """whether each layer's feed-forward part is two matrices, hidden size to F and back, not three"""
    x = make(c)
    if type(x) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        return False
    if get(x, "num_key_value_heads") is None and isinstance(get(x, "num_attention_heads"), int):
        x.num_key_value_heads = x.num_attention_heads  # Nemotron's class leaves it open
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(x)
        x = x.get_text_config()
        hidden = x.hidden_size
        wide = next((n for n in (get(x, k) for k in OF_FEED_FORWARD) if isinstance(n, int) and n > 0), 4 * hidden)
    except Exception:
        return False
    matrices = {}
    for name, weight in model.named_parameters():
        layer = re.search(r"(?:layers?|h|blocks?)\.(\d+)\.", name)
        if layer and not re.search("vision|image|audio", name) and weight.dim() == 2 and sorted(weight.shape) in (sorted((wide, hidden)), sorted((2 * wide, hidden))):
            matrices[layer[1]] = matrices.get(layer[1], 0) + weight.numel() // (wide * hidden)
    return wide != hidden and set(matrices.values()) == {2}


def is_for_text(model_type, c, parts):
    x = make(c)
    return (model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or model_type in parts) and isinstance(get(x, "num_attention_heads"), int)


def quoted(text):
    return '"' + text.replace('"', '\\"') + '"'


def main():
    found = classes()
    subs = {t: {k: s.model_type for k, s in (getattr(c, "sub_configs", None) or {}).items()
                if getattr(s, "model_type", "") and inspect.isclass(s)} for t, c in found.items()}
    parts = {s.get(k) for s in subs.values() for k in ("text_config", "llm_config", "language_config")}
    head = f"/* Made by scripts/architectures.py of transformers {transformers.__version__}: do not edit. What a row means: arch.h. */\n"
    path = os.path.join(sys.argv[1], "arch_classes.inc")
    with open(path) as f:  # what stand_ins.py measured stays
        measured = {t: re.findall(r"\b(?:weights|rows|masks|live|logits|scores)(?:_half)?=\w+", words) for t, words in re.findall(r'^VC_ARCH\("([^"]+)", "[^"]*", "([^"]*)"\)', f.read(), re.M)}
    types, rows = [], []
    for model_type, c in sorted(found.items()):
        if make(c) is None:
            continue
        text = next((subs[model_type][k] for k in ("text_config", "llm_config", "language_config") if k in subs[model_type]), "")
        has_text = any(k in (getattr(c, "sub_configs", None) or {}) for k in ("text_config", "llm_config", "language_config"))
        words = default_words(c, is_for_text(model_type, c, parts), has_text) + measured.get(model_type, [])
        own = list_rows(model_type, c)
        rows += own
        if words or text or own:
            types.append(f'VC_ARCH({quoted(model_type)}, {quoted(text)}, {quoted(" ".join(words))})\n')
    with open(path, "w") as f:
        f.write(head + "".join(types))
        for t, name, rule, number, key, a, b, unless, instead in rows:
            f.write(f"VC_ARCH_LIST({quoted(t)}, {quoted(name)}, {rule}, {number}, {quoted(key)}, {quoted(word(a))}, {quoted(word(b))}, "
                    f"{quoted(unless)}, {quoted(instead)})\n")


if __name__ == "__main__":
    main()

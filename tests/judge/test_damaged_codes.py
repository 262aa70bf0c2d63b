"""test_damaged_codes.py - codes that contradict each other, their parts or their configuration, in every layout.

Two laws, over small files, each with one change: what `dequantize` refuses, `verify --data` finds; and neither ends in
another way than with an answer or a refusal. NumPy writes the files; the program judges itself. Every fifth change is
tried; with ALL_OF_THEM=1 in the environment, all of some 9,000 are, and what `verify` alone finds is printed.
"""
import copy
import json
import os
import shutil
import struct

import foreign_layouts as layouts
import judge_support as support
from foreign_layouts import KINDS, tensor
from judge_support import Judge, np, run

P = "model.layers.0.mlp.up_proj."


def load(path):
    data = support.read_bytes(path)
    (n,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + n])
    meta = header.pop("__metadata__", None)
    return meta, {k: [v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]]
                  for k, v in header.items()}


def save(path, meta, tensors):
    header, at = {}, 0
    if meta is not None:
        header["__metadata__"] = meta
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    support.write_bytes(path, struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def base_tensors(hidden=128, inner=256):
    r = np.random.default_rng(3)
    t = {"model.embed_tokens.weight": tensor(r.standard_normal((32, hidden)) * 0.1),
         "model.norm.weight": tensor(np.ones(hidden)), "lm_head.weight": tensor(r.standard_normal((32, hidden)) * 0.1)}
    for i in range(1):
        t["model.layers.%d.mlp.up_proj.weight" % i] = tensor(r.standard_normal((inner, hidden)) * 0.1)
    return t


CONFIG = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=128, intermediate_size=256,
              num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4, vocab_size=32,
              max_position_embeddings=64, rms_norm_eps=1e-05, torch_dtype="bfloat16")

MADE = {
    "ct int4": ["--int4", "--layout", "compressed-tensors", "--granularity", "group:32"],
    "ct int4 asym": ["--int4", "--layout", "compressed-tensors", "--granularity", "group:32", "--asymmetric"],
    "ct int8": ["--int8", "--layout", "compressed-tensors"],
    "ct int3": ["--int3", "--layout", "compressed-tensors", "--granularity", "group:32"],
    "ct fp8": ["--fp8", "--layout", "compressed-tensors"],
    "ct fp8 block": ["--fp8", "--granularity", "block:128", "--layout", "compressed-tensors"],
    "ct mxfp8": ["--mxfp8", "--layout", "compressed-tensors"],
    "ct mxfp4": ["--mxfp4", "--layout", "compressed-tensors"],
    "ct nvfp4": ["--nvfp4", "--layout", "compressed-tensors"],
    "w8a8": ["--int8", "--layout", "w8a8"],
    "fp8": ["--fp8", "--granularity", "block:128", "--layout", "fp8"],
    "nf4": ["--nf4", "--layout", "bitsandbytes"],
    "nf4 nested": ["--nf4", "--layout", "bitsandbytes", "--double-quant"],
    "fp4": ["--fp4", "--layout", "bitsandbytes"],
    "bnb int8": ["--int8", "--layout", "bitsandbytes"],
    "plain int8": ["--int8", "--layout", "plain"],
    "plain int4": ["--int4", "--layout", "plain"],
    "plain nvfp4": ["--nvfp4", "--layout", "plain"],
    "plain nf4": ["--nf4", "--layout", "plain"],
}


def words(bits, groups, out, inner, awq=False):
    r = np.random.default_rng(4)
    per = 32 // bits
    shape = (inner, out // per) if awq else (inner // per, out)
    zero = 0x88888888 if awq and bits == 4 else 0x77777777 if bits == 4 else 0x7f7f7f7f
    return {P + "qweight": tensor(r.integers(-2**31, 2**31, shape), "I32"),
            P + "qzeros": tensor(np.full((inner // groups, out // per), np.array(zero, "u4").view("i4")), "I32"),
            P + "scales": tensor(np.full((inner // groups, out), 0.01), "F16")}


def hand_made(kind):
    """Tensors of the module, and quantization_config."""
    r = np.random.default_rng(5)
    if kind in ("gptq", "gptq 8"):
        bits = 8 if kind == "gptq 8" else 4
        t = words(bits, 32, 256, 128)
        t[P + "g_idx"] = tensor(np.arange(128) // 32, "I32")
        return t, {"quant_method": "gptq", "bits": bits, "group_size": 32, "desc_act": False, "sym": True,
                   "checkpoint_format": "gptq"}
    if kind == "awq":
        return words(4, 32, 256, 128, True), {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True,
                                              "version": "gemm"}
    if kind in LAYOUTS:
        own, config, _ = LAYOUTS[kind]()
        return {P + k: v for k, v in own.items()}, config["quantization_config"]
    codes = r.integers(0, 120, (256, 128)).astype("u1")
    if kind == "modelopt fp8":
        return {P + "weight": ["F8_E4M3", [256, 128], codes.tobytes()],
                P + "weight_scale": tensor(np.full(256, 0.01)), P + "input_scale": tensor(0.5)}, {
                    "quant_method": "modelopt", "quant_algo": "FP8"}
    if kind == "modelopt nvfp4":
        return {P + "weight": ["U8", [256, 64], codes[:, :64].tobytes()],
                P + "weight_scale": ["F8_E4M3", [256, 8], bytes([56]) * 2048],
                P + "weight_scale_2": tensor(0.01), P + "input_scale": tensor(0.5)}, {
                    "quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
    raise KeyError(kind)


LAYOUTS = {"gptq 3 act": lambda: layouts.gptq(3, order=True), "awq gemv": layouts.awq_gemv, "hqq 4": lambda: layouts.hqq(4),
           "hqq 3": lambda: layouts.hqq(3, 0), "quanto 4": lambda: layouts.quanto(4), "quanto 8": lambda: layouts.quanto(8),
           "mlx 4": lambda: layouts.mlx(4), "mlx mxfp4": lambda: layouts.mlx(4, 32, "mxfp4")}
HAND = ["gptq", "gptq 8", "awq", "modelopt fp8", "modelopt nvfp4"] + list(LAYOUTS)


def values(t):
    return np.frombuffer(t[2], KINDS[t[0]]).reshape(t[1]).copy()


def tensor_changes(name, t):
    """Pairs of a description and a function that changes a dict of tensors."""
    kind, shape, data = t

    def put(new):
        return lambda tensors: tensors.__setitem__(name, new)

    yield "without", lambda tensors: tensors.pop(name)
    others = {"U32": ["I32", "U8"], "F32": ["F16", "I32"], "F16": ["F32", "BF16", "I8"], "BF16": ["F16", "F32"], "I32": ["I64", "F32"],
              "I64": ["I32", "F32"], "U8": ["I8", "F32"], "I8": ["U8", "F32"], "F8_E4M3": ["U8", "F32"]}
    a = values(t)
    for other in others.get(kind, []):
        plain = a.astype("f4") if kind != "BF16" else (a.astype("u4") << 16).view("f4")
        if KINDS[other][-2] == KINDS[kind][-2] or KINDS[other] == "u1" and kind == "I8":
            yield "as " + other, put([other, shape, data])
        else:
            with np.errstate(all="ignore"):
                yield "as " + other, put(tensor(plain, other))
    yield "shape + [1]", put([kind, shape + [1], data])
    if a.size > 1:
        yield "flat", put([kind, [a.size], data])
    if len(shape) > 1 and shape[0] > 1:
        yield "one row less", put([kind, [shape[0] - 1] + shape[1:], data[:len(data) // shape[0] * (shape[0] - 1)]])
        yield "turned", put([kind, shape[::-1], data])
        half = values(t)[:, :max(1, shape[1] // 2)]
        yield "half of the columns", put([kind, list(half.shape), np.ascontiguousarray(half).tobytes()])
    if len(shape) == 1 and shape[0] > 1:
        yield "one less", put([kind, [shape[0] - 1], data[:len(data) // shape[0] * (shape[0] - 1)]])
        yield "one more", put([kind, [shape[0] + 1], data + data[:len(data) // shape[0]]])
    yield "empty", put([kind, [0], b""])
    special = {"<u4": [2**32 - 1, 0], "<f4": [np.nan, np.inf, -np.inf, 3e38, -1, 0], "<f2": [np.nan, np.inf, -1, 0], "<i4": [-1, 2**31 - 1, 7],
               "<i8": [-1, 2**62, 0, 3], "u1": [0, 255, 127], "i1": [-128, -1], "<u2": [0x7fc0, 0x7f80, 0xbf80, 0x7f7f]}
    for x in special[KINDS[kind]]:
        for at in (0, a.size - 1):
            b = a.copy()
            b.flat[at] = x
            yield "value %s at %d" % (x, at), put([kind, shape, b.tobytes()])


def paths(node, at=()):
    if isinstance(node, dict):
        for k, v in node.items():
            yield at + (k,)
            yield from paths(v, at + (k,))
    elif isinstance(node, list):
        for i, v in enumerate(node):
            yield at + (i,)
            yield from paths(v, at + (i,))


def json_changes(root):
    for path in list(paths(root)):
        for new in ("gone", None, 0, -1, -128, 3, 5, 64, 1e39, True, False, "x", [], {}, [1], "nan"):
            other = copy.deepcopy(root)
            node = other
            for step in path[:-1]:
                node = node[step]
            if new == "gone":
                del node[path[-1]]
            elif node[path[-1]] == new and type(node[path[-1]]) is type(new):
                continue
            else:
                node[path[-1]] = new
            yield "%s: %s" % (".".join(map(str, path)), json.dumps(new)), other


class DamagedCodes(Judge):
    def make(self, kind):
        """The folder of that kind, undamaged: metadata, tensors, config."""
        folder = self.path("made")
        shutil.rmtree(folder, ignore_errors=True)
        model = self.path("model")
        if not os.path.isdir(model):
            os.mkdir(model)
            save(model + "/model.safetensors", {"format": "pt"}, base_tensors())
            support.write_bytes(model + "/config.json", json.dumps(CONFIG).encode())
        if kind in MADE:
            self.vc("quantize", *MADE[kind], *support.SMALL, "--exclude", "lm_head*", "--exclude", "*embed*", "-q", model,
                    "-o", folder)
            meta, tensors = load(folder + "/model.safetensors")
            return meta, tensors, json.loads(support.read_bytes(folder + "/config.json"))
        own, config = hand_made(kind)
        tensors = base_tensors()
        del tensors[P + "weight"]
        tensors.update(own)
        return {"format": "pt"}, tensors, dict(CONFIG, quantization_config=config)

    def write(self, meta, tensors, config):
        folder = self.path("q")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        save(folder + "/model.safetensors", meta, tensors)
        support.write_bytes(folder + "/config.json", json.dumps(config).encode())
        return folder

    def both(self, what, meta, tensors, config):
        self.n += 1
        if self.n % 5 != 0 and not os.environ.get("ALL_OF_THEM"):
            return
        folder = self.write(meta, tensors, config)
        shutil.rmtree(self.path("o"), ignore_errors=True)
        decoded = run("dequantize", "-q", folder, "-o", self.path("o"))
        if decoded.code not in (0, 1, 3):
            self.wrong.append("%s: dequantize: exit %d: %s" % (what, decoded.code, decoded.err.strip()))
        if decoded.code == 0 and not os.environ.get("ALL_OF_THEM"):
            return
        checked = run("verify", "--data", folder)
        if checked.code not in (0, 1, 3):
            self.wrong.append("%s: verify: exit %d: %s" % (what, checked.code, checked.err.strip()))
        if decoded.code != 0 and checked.code == 0:
            self.wrong.append("%s: verify finds nothing, dequantize: %s" % (what, decoded.err.strip()))
        if decoded.code == 0 and checked.code != 0 and os.environ.get("ALL_OF_THEM"):
            print("only verify:", what, checked.out.decode()[-300:])

    def changes_of(self, kind):
        self.wrong, self.n = [], 0
        meta, tensors, config = self.make(kind)
        folder = self.write(meta, tensors, config)
        self.vc("verify", "--data", folder)
        self.vc("dequantize", "-q", folder, "-o", self.path("plain"))
        shutil.rmtree(self.path("plain"))
        for name in [n for n in tensors if n.startswith(P)]:
            for what, change in tensor_changes(name, tensors[name]):
                changed = dict(tensors)
                change(changed)
                self.both("%s: %s %s" % (kind, name[len(P):], what), meta, changed, config)
            if "quant_state" in name:
                for what, text in json_changes(json.loads(tensors[name][2])):
                    data = json.dumps(text).encode()
                    self.both("%s: state %s" % (kind, what), meta, dict(tensors, **{name: ["U8", [len(data)], data]}),
                              config)
        if config.get("quantization_config"):
            for what, changed in json_changes(config["quantization_config"]):
                self.both("%s: config %s" % (kind, what), meta, tensors, dict(config, quantization_config=changed))
        if meta and "vcompress.json" in meta:
            for what, changed in json_changes(json.loads(meta["vcompress.json"])):
                self.both("%s: manifest %s" % (kind, what), dict(meta, **{"vcompress.json": json.dumps(changed)}),
                          tensors, config)
        if os.environ.get("ALL_OF_THEM"):
            print("%s: %d changes, %d wrong" % (kind, self.n, len(self.wrong)), *self.wrong, sep="\n  ", flush=True)
        return self.wrong

    def test_all(self):
        wrong = []
        only = os.environ.get("ONLY")
        for kind in [only] if only else list(MADE) + HAND:
            wrong += self.changes_of(kind)
        self.assertEqual([], wrong, "\n" + "\n".join(wrong))


if __name__ == "__main__":
    support.main()

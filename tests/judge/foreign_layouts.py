"""foreign_layouts.py - weights as other programs write them, small, and what they are in f32: NumPy, by the programs' sources.

Each function returns the tensors of a module [256, 128] (names without the module), the members that config.json has for
them, and the values. The packings are those of gptqmodel and AutoGPTQ, AutoAWQ (gemv), hqq, optimum-quanto and MLX.
"""

from judge_support import np

OUT, IN = 256, 128
KINDS = {"U32": "<u4", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I32": "<i4", "I64": "<i8", "U8": "u1", "I8": "i1", "F8_E4M3": "u1"}


def tensor(values, kind="F32"):
    a = np.asarray(values)
    if kind == "BF16":
        a = (a.astype("<f4").view("<u4") >> 16).astype("<u2")
    a = np.ascontiguousarray(a.astype(KINDS[kind]))
    return [kind, list(a.shape), a.tobytes()]


def dense(codes, bits):
    """Codes side by side along the last axis, from the lowest bits on, in words of 32 bits."""
    a = (codes[..., None].astype("u4") >> np.arange(bits, dtype="u4") & 1).astype("u1")
    a = a.reshape(codes.shape[:-1] + (-1,))
    a = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, -a.shape[-1] % 32)])
    return np.packbits(a, axis=-1, bitorder="little").view("<u4")


def random(seed, bits, n_groups):
    r = np.random.default_rng(seed)
    codes = r.integers(0, 2**bits, (OUT, IN))
    scale = (r.random((OUT, n_groups)) * 0.01 + 0.002).astype("f2").astype("f4")
    return r, codes, scale


def gptq(bits, group=32, order=False, v2=False, symmetric=False):
    r, codes, scale = random(bits, bits, IN // group)
    zero = np.full(scale.shape, 2**(bits - 1)) if symmetric else r.integers(1, 2**bits, scale.shape)
    index = np.arange(IN) // group
    index = r.permutation(index) if order else index
    value = (codes - zero[:, index]).astype("f4") * scale[:, index]
    stored = zero if v2 else zero - 1
    return ({"qweight": tensor(dense(codes, bits).T.view("i4"), "I32"),
             "qzeros": tensor(dense(stored.T, bits).view("i4"), "I32"), "scales": tensor(scale.T, "F16"),
             "g_idx": tensor(index, "I32")},
            {"quantization_config": {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": order,
                                     "sym": symmetric, "checkpoint_format": "gptq_v2" if v2 else "gptq"}}, value)


def awq_gemv(group=64):
    r, codes, scale = random(7, 4, IN // group)
    zero = r.integers(0, 16, scale.shape)
    index = np.arange(IN) // group
    words = {32: 4, 64: 2, 128: 1}[group]  # calculate_zeros_width
    wide = lambda a: np.pad(a, ((0, 0), (0, 8 * words - a.shape[1])))
    return ({"qweight": tensor(dense(codes, 4).view("i4"), "I32"),
             "qzeros": tensor(dense(wide(zero), 4).view("i4"), "I32"), "scales": tensor(wide(scale), "F16")},
            {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True,
                                     "version": "gemv"}}, (codes - zero[:, index]).astype("f4") * scale[:, index])


def hqq(bits, axis=1, group=64, named=True):
    """named: with hqq's `packing`; transformers' files of before have `nbits` alone."""
    r, codes, _ = random(bits + 20, min(bits, 8), 1)
    flat = codes.reshape((-1, group) if axis == 1 else (group, -1))
    shape = (len(flat), 1) if axis == 1 else (1, flat.shape[1])
    scale = (r.random(shape) * 0.01 + 0.002).astype("f2").astype("f4")
    zero = (r.random(shape) * 2**bits).astype("f2").astype("f4")
    value = ((flat.astype("f4") - zero) * scale).reshape(OUT, IN)
    stored = {1: 1, 2: 2, 3: 3, 4: 4, 5: 8, 6: 8, 8: 8}[bits]
    per = 10 if stored == 3 else 8 // stored
    step = -(-len(flat) // per)
    padded = np.zeros((step * per, flat.shape[1]), "i8")
    padded[:len(flat)] = flat
    words = sum(padded[i * step:(i + 1) * step] << stored * (per - 1 - i) for i in range(per))
    name = "3bit_32" if stored == 3 else "%dbit_u8" % stored
    t = {"W_q": tensor(words, "I32" if stored == 3 else "U8"), "scale": tensor(scale, "F16"), "zero": tensor(zero, "F16"),
         "nbits": tensor(bits, "I32"), "axis": tensor(axis, "I32"), "group_size": tensor(group, "I32"),
         "shape": tensor([OUT, IN], "I64")}
    if named:
        t["packing"] = ["U8", [len(name)], name.encode()]
        t["view_as_float"] = tensor(0, "U8")
    return t, {"quantization_config": {"quant_method": "hqq", "quant_config": {}, "skip_modules": ["lm_head"]}}, value


def quanto(bits):
    r, codes, scale = random(bits + 40, bits, 1)
    config = {"quantization_config": {"quant_method": "quanto", "weights": "int%d" % bits}}
    beside = {"input_scale": tensor(1.0), "output_scale": tensor(1.0)}
    if bits == 8:
        codes = codes - 128
        return (dict(beside, **{"weight._data": tensor(codes, "I8"), "weight._scale": tensor(scale)}), config,
                codes.astype("f4") * scale)
    shift = (r.random(scale.shape) * 0.1).astype("f4")
    per = 8 // bits
    step = OUT // per
    packed = sum(codes[i * step:(i + 1) * step] << bits * i for i in range(per))
    return (dict(beside, **{"weight._data._data": tensor(packed, "U8"), "weight._scale": tensor(scale),
                            "weight._shift": tensor(shift)}), config, codes.astype("f4") * scale - shift)


E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6], "f4")


def mlx(bits, group=32, mode="affine", own=None, null=False):
    """own: the module has numbers of its own in the configuration, under this name; null: a group size of null, as mlx-lm's mixed recipes."""
    r, codes, scale = random(bits + 60, bits, IN // group)
    index = np.arange(IN) // group
    said = {"group_size": None if null else group, "bits": bits, "mode": mode}
    if mode == "affine":
        bias = (r.random(scale.shape) - 0.5).astype("f2").astype("f4")
        scale[::3] *= -1  # MLX has scales of both signs
        t = {"scales": tensor(scale, "F16"), "biases": tensor(bias, "F16")}
        value = codes.astype("f4") * scale[:, index] + bias[:, index]
    elif mode == "mxfp4":
        exponent = r.integers(115, 125, scale.shape)
        t = {"scales": tensor(exponent, "U8")}
        value = E2M1[codes] * np.exp2(exponent - 127.0).astype("f4")[:, index]
    else:  # nvfp4: normal numbers of E4M3
        byte = r.integers(8, 0x7e, scale.shape)
        t = {"scales": tensor(byte, "U8")}
        value = E2M1[codes] * ((8 + byte % 8) * np.exp2((byte >> 3) - 10.0)).astype("f4")[:, index]
    t["weight"] = ["U32", [OUT, IN * bits // 32], dense(codes, bits).tobytes()]
    said = {"group_size": 128, "bits": 2, own: said, "lm_head": False} if own else said
    return t, {"quantization": said, "quantization_config": said}, value

"""definition.py - the definitions of docs/numerics.md in NumPy, written for reading and not for speed.

Everything is float32 or float64 array arithmetic as IEEE 754 fixes it. bfloat16, which NumPy lacks, is a uint16 array
here. Knows nothing about files.
"""
import numpy as np

F4 = np.float32
MIN_NORMAL = F4(2.0 ** -126)


# ---- bfloat16 and the casts -----------------------------------------------------------------------------------------
def bf16_to_f32(h):
    return (h.astype(np.uint32) << 16).view(F4)


def f32_to_bf16(x):
    """Round to nearest even on the upper 16 bits; x finite or infinite."""
    u = np.ascontiguousarray(x, F4).view(np.uint32).astype(np.uint64)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def f64_to_bf16(x):
    """One rounding from float64: look at the two neighbours and take the nearer, at a tie the even one."""
    m = np.abs(x)
    with np.errstate(over="ignore"):
        low = (m.astype(F4).view(np.uint32) >> 16).astype(np.uint32)
    low = np.where(low > 0x7F7F, 0x7F7F, low)  # the largest finite one
    value = bf16_to_f32(low.astype(np.uint16)).astype(np.float64)
    low = np.where(value > m, low - 1, low)  # the float32 had been rounded up across it
    value = bf16_to_f32(low.astype(np.uint16)).astype(np.float64)
    high = bf16_to_f32((low + 1).astype(np.uint16)).astype(np.float64)
    high = np.where(low == 0x7F7F, 2.0 ** 128, high)
    with np.errstate(invalid="ignore"):
        below, above = m - value, high - m  # exact: neighbours are within a factor of two, or zero
    up = (above < below) | ((above == below) & (low & 1 == 1))
    h = np.where(np.isinf(m), 0x7F80, low + up)
    return (h | np.where(np.signbit(x), 0x8000, 0)).astype(np.uint16)


def cast(x, target):
    """x float16, float32 or float64 -> 'f16' (float16 array) or 'bf16' (uint16 array), one rounding."""
    with np.errstate(over="ignore"):
        if target == "f16":
            return x.astype(np.float16)
        if x.dtype == np.float64:
            return f64_to_bf16(x)
        return f32_to_bf16(x.astype(F4))


def cast_value(h, target):
    return h.astype(F4) if target == "f16" else bf16_to_f32(h)


# ---- int8 -----------------------------------------------------------------------------------------------------------
def to_f32(x):
    with np.errstate(over="ignore"):
        return x.astype(F4)


def grouped(w, granularity, axis, group):
    """w as (scales, elements of each), how to undo that, and the stored shape of the scales."""
    if granularity == "tensor":
        return w.reshape(1, -1), (1,)
    if granularity == "channel":
        axis %= w.ndim
        shape = tuple(n if d == axis else 1 for d, n in enumerate(w.shape))
        return np.moveaxis(w, axis, 0).reshape(w.shape[axis], -1), shape
    rows = w.reshape(w.shape[0] if w.ndim > 1 else 1, -1)
    n_groups = -(-rows.shape[1] // group)
    padded = np.zeros((rows.shape[0], n_groups * group), w.dtype)
    padded[:, :rows.shape[1]] = rows
    return padded.reshape(-1, group), (rows.shape[0], n_groups)


def ungrouped(g, like, granularity, axis, group):
    if granularity == "tensor":
        return g.reshape(like)
    if granularity == "channel":
        axis %= len(like)
        moved = (like[axis],) + like[:axis] + like[axis + 1:]
        return np.moveaxis(g.reshape(moved), 0, axis)
    n_rows = like[0] if len(like) > 1 else 1
    n_cols = int(np.prod(like)) // max(n_rows, 1)
    return g.reshape(n_rows, -1)[:, :n_cols].reshape(like)


def int8(x, granularity="channel", axis=0, group=0, asymmetric=False):
    """Codes, scales, zero points (None when symmetric) in their stored shapes, and how many codes the clamp changed."""
    w = to_f32(x)
    g, scale_shape = grouped(w, granularity, axis, group)
    with np.errstate(over="ignore", under="ignore"):
        if asymmetric:
            top = np.maximum(g.max(axis=1), F4(0))
            bottom = np.minimum(g.min(axis=1), F4(0))
            reach = top - bottom
            s = np.where(np.isinf(reach), top / F4(255) - bottom / F4(255), reach / F4(255)).astype(F4)
            most = np.maximum(top, -bottom)
            with np.errstate(invalid="ignore", divide="ignore"):
                k = np.rint(most / s)
            s = np.where(np.isinf(k * s), most / (k - F4(0.75)), s).astype(F4)
        else:
            s = (np.abs(g).max(axis=1) / F4(127)).astype(F4)
            s = np.where(np.isinf(F4(127) * s), np.nextafter(s, F4(0)), s)
        s = np.where(s < MIN_NORMAL, F4(1), s).astype(F4)
        t = np.rint(g / s[:, None])
        z = None
        low = -127
        if asymmetric:
            z = np.clip(np.rint(F4(-128) - bottom / s), -128, 127).astype(np.int8)
            t = t + z[:, None].astype(F4)
            low = -128
    assert t.dtype == F4 and s.dtype == F4
    q = ungrouped(np.clip(t, low, 127).astype(np.int8), x.shape, granularity, axis, group)
    clipped = int(((t < low) | (t > 127)).sum())
    return (np.ascontiguousarray(q), s.reshape(scale_shape), None if z is None else z.reshape(scale_shape), clipped)


def without_nonfinite(x, granularity="channel", axis=0, group=0, asymmetric=False):
    """float32: NaN -> 0, Inf -> the largest finite magnitude of its scale's elements; asymmetric: of its sign."""
    w = to_f32(x)
    g, _ = grouped(w, granularity, axis, group)
    finite = np.where(np.isfinite(g), g, F4(0))
    top, bottom = finite.max(axis=1)[:, None], finite.min(axis=1)[:, None]
    if not asymmetric:
        top = np.maximum(top, -bottom)
        bottom = -top
    g = np.where(np.isposinf(g), np.maximum(top, F4(0)), np.where(np.isneginf(g), np.minimum(bottom, F4(0)), finite))
    return np.ascontiguousarray(ungrouped(g.astype(F4), w.shape, granularity, axis, group))


def broadcast(s, shape, granularity, group):
    """Scales or zero points, one per element."""
    if granularity != "group":
        return np.broadcast_to(s, shape)
    n_cols = int(np.prod(shape)) // max(s.shape[0], 1)
    return np.repeat(s, group, axis=1)[:, :n_cols].reshape(shape)


def int8_value(q, s, z, granularity, group=0):
    codes = q.astype(np.int32)
    if z is not None:
        codes = codes - broadcast(z, q.shape, granularity, group).astype(np.int32)
    with np.errstate(over="ignore"):  # scales that were not made by int8() may decode to Inf
        return codes.astype(F4) * broadcast(s, q.shape, granularity, group)


# ---- GGUF's Q8_0 ----------------------------------------------------------------------------------------------------
def lanes8(v):
    """The sum of the last axis: lane l of 8 adds elements l, l + 8, ... in turn; then lanes l and l + 4, 2, 1."""
    n = v.shape[-1]
    v = np.concatenate([v, np.zeros(v.shape[:-1] + (-n % 8,))], -1).reshape(v.shape[:-1] + (-1, 8))
    lane = np.zeros(v.shape[:-2] + (8,))
    for k in range(v.shape[-2]):
        lane = lane + v[..., k, :]
    for k in (4, 2, 1):
        lane = lane[..., :k] + lane[..., k:2 * k]
    return lane[..., 0]


def scale_stored(s, dtype, steps=8):
    """Scales as they are stored, and the same as f32: so many steps of them are finite."""
    if dtype == "f16":
        h = np.clip(s.astype("f2"), np.float16(-65504), np.float16(65504))
        return h, h.astype(F4)
    most = np.uint32(0x7F7F0000 if dtype == "bf16" else 0x7F7FFFFF).view(F4) / F4(steps)
    if dtype == "bf16":
        h = f32_to_bf16(s)
        h = np.where(bf16_to_f32(h) > most, f32_to_bf16(most), np.where(bf16_to_f32(h) < -most, f32_to_bf16(-most), h))
        return h, bf16_to_f32(h)
    s = np.clip(s, -most, most).astype(F4)
    return s, s


INTS = {"int2": (-2, 1), "int3": (-4, 3), "int4": (-8, 7), "int5": (-16, 15), "int6": (-32, 31), "ternary": (-1, 1)}


def int_search(g, low, high, largest, divisor, factors, steps, dtype, both):
    """Scales f32 of groups [n, columns], 0 where there is none, and their errors; low, high: of each group."""
    best, least = np.zeros(len(g), F4), np.full(len(g), np.inf)
    low, high = np.broadcast_to(low, len(g))[:, None].astype(F4), np.broadcast_to(high, len(g))[:, None].astype(F4)

    def step(s):
        return np.rint(np.clip(g / s[:, None], low, high)).astype("f8")

    with np.errstate(all="ignore"):
        for sign in (1, -1) if both else (1,):
            for f in factors:
                s = (f * largest.astype("f8") / divisor).astype(F4)
                some = s != 0
                q = step(F4(sign) * s)
                s = np.nan_to_num(lanes8(q * g.astype("f8")) / lanes8(q * q)).astype(F4)
                s = scale_stored(s, dtype, steps)[1]
                e = lanes8((g.astype("f8") - step(s) * s[:, None].astype("f8")) ** 2)
                better = some & (s != 0) & (e < least)
                best, least = np.where(better, s, best), np.where(better, e, least)
    return best, least


def ints(x, group, scheme="int4", dtype="f32", both=True, asymmetric=False):
    """codes int8 [rows, columns], scales [rows, groups] as stored, the same as f32, zero points int8."""
    w = to_f32(x).reshape(x.shape[0], -1)
    low, high = INTS[scheme]
    smallest = F4(2.0 ** -14) if dtype == "f16" else F4(2.0 ** -126)
    usual = [(50 + 4 * i) / 100 for i in range(16)]
    codes, scales, zeros = [], [], []
    for first in range(0, w.shape[1], group):
        g = w[:, first:first + group]
        best, z = np.zeros(len(g), F4), np.zeros(len(g), int)
        steps = high - low + 1 if asymmetric else -low
        if asymmetric:
            least = np.full(len(g), np.inf)
            most, under = np.maximum(g.max(axis=1), 0), np.minimum(g.min(axis=1), 0)
            half = (0.5 * most.astype("f8") - 0.5 * under.astype("f8")).astype(F4)
            with np.errstate(all="ignore"):
                middle = (F4(high - low) * (F4(-0.5) * under / half) + F4(0.5)).astype(F4)
            middle = np.where(half > 0, np.nan_to_num(middle).astype(int) + low, 0)
            for to in (-1, 0, 1):
                at = middle + to
                s, e = int_search(g, low - at, high - at, half, high - low, [2 * f for f in usual], steps, dtype, False)
                better = (s != 0) & (at >= low) & (at <= high) & (e < least)
                best, z, least = np.where(better, s, best), np.where(better, at, z), np.where(better, e, least)
        elif scheme == "ternary":
            best, _ = int_search(g, low, high, np.abs(g).max(axis=1), 1, [(i + 1) / 16 for i in range(16)], steps, dtype, False)
        else:
            best, _ = int_search(g, low, high, np.abs(g).max(axis=1), -low, usual, steps, dtype, both)
        with np.errstate(all="ignore"):
            u = np.rint(np.clip(g / np.where(best != 0, best, F4(1))[:, None], (low - z)[:, None].astype(F4),
                                (high - z)[:, None].astype(F4)))
        codes.append(np.where(best[:, None] != 0, u, 0).astype(int) + z[:, None])
        scales.append(np.where(best != 0, best, smallest))
        zeros.append(z)
    stored, used = scale_stored(np.stack(scales, 1).astype(F4), dtype, steps)
    return np.concatenate(codes, 1).astype("i1"), stored, used, np.stack(zeros, 1).astype("i1")


def int_value(q, s, group, z=None):
    u = q.astype(int) - (0 if z is None else np.repeat(z.astype(int), group, axis=1)[:, :q.shape[1]])
    return u.astype(F4) * np.repeat(s, group, axis=1)[:, :q.shape[1]]


def int_best(g, scheme):
    """The least squared error that any scale, of either sign, gives each group [n, columns]: between two places where a
    code changes, the scale of least squares for the codes there."""
    low, high = INTS[scheme]
    found = np.full(len(g), np.inf)
    for n, row in enumerate(g.astype("f8")):
        places = np.sort(np.concatenate([(k + 0.5) / np.abs(row[row != 0]) for k in range(-low)]))
        places = np.concatenate([[places[0] / 2], (places[1:] + places[:-1]) / 2, [places[-1] * 2]])
        for sign in (1, -1):
            q = np.clip(np.rint(row * (sign * places)[:, None]), low, high)
            squares = np.maximum((q * q).sum(1), 1e-300)
            found[n] = min(found[n], (row * row).sum() - ((q * row).sum(1) ** 2 / squares).max())
    return found


# ---- codes of float grids ------------------------------------------------------------------------------------------
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], F4)
NF4 = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023,
                1.0], F4)
FP4 = np.array([0, 0.005208333333, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25], F4)


def e4m3_value(code):
    code = np.asarray(code, "u1")
    e, m = code >> 3 & 15, (code & 7).astype("f8")
    a = np.where(e == 0, m / 512, (1 + m / 8) * 2.0 ** (e.astype("f8") - 7))
    a = np.where(code & 127 == 127, np.nan, a)
    return np.where(code & 128, -a, a).astype(F4)


def nearest(values, t, to_even):
    """The number of the nearest of ascending values; half way: the even number, or the smaller one."""
    half = ((values[:-1].astype("f8") + values[1:].astype("f8")) / 2)
    if not to_even:
        half = (F4(0.5) * (values[:-1] + values[1:])).astype("f8")
    low = np.searchsorted(half, t.astype("f8"), "left")
    tie = np.isin(t.astype("f8"), half) & (low % 2 == 1) & to_even
    return low + tie


def float_codes(kind, t):
    """Codes of t = x / scale."""
    a = np.abs(t)
    if kind == "e4m3":
        c = nearest(e4m3_value(np.arange(127)), np.minimum(a, F4(448)), True)
        return (c | np.signbit(t) * 128).astype("u1")
    if kind == "nf4":
        return nearest(NF4, t, False).astype("u1")
    order = np.argsort(FP4) if kind == "fp4" else np.arange(8)
    c = order[nearest((FP4 if kind == "fp4" else E2M1)[order], a, kind == "e2m1")]
    return (c | (8 * ((t < 0) & (c != 0)))).astype("u1")


def float_values(kind, code):
    if kind == "e4m3":
        return e4m3_value(code)
    if kind == "nf4":
        return NF4[code]
    v = (FP4 if kind == "fp4" else E2M1)[code & 7]
    return np.where(code & 8, -v, v)


GRIDS = {"fp8": "e4m3", "mxfp8": "e4m3", "mxfp4": "e2m1", "nvfp4": "e2m1", "nf4": "nf4", "fp4": "fp4"}


def e8m0(byte):
    return np.where(byte == 0, 2.0 ** -127, 2.0 ** (byte.astype("f8") - 127)).astype(F4)


def float_scale(scheme, g, dtype, divisor):
    """Scales of groups g [n, elements]: as stored, as f32, and which groups have codes that are not all 0."""
    kind, most = GRIDS[scheme], np.abs(g).max(axis=1)
    some = most > 0

    def error(s):
        with np.errstate(all="ignore"):
            y = float_values(kind, float_codes(kind, (g / s[:, None]).astype(F4)))
            return lanes8((g.astype("f8") - y.astype("f8") * s[:, None].astype("f8")) ** 2)

    def best(candidates):
        """(stored, f32, usable) in the order of trial: the first of the least error."""
        stored = used = None
        least = np.full(len(g), np.inf)
        for b, s, ok in candidates:
            e = np.where(ok, error(np.where(ok, s, F4(1))), np.inf)
            stored = b.copy() if stored is None else np.where(e < least, b, stored)
            used = s.copy() if used is None else np.where(e < least, s, used)
            least = np.minimum(least, e)
        return stored, used, least < np.inf

    if scheme == "fp8":
        limit = np.uint32(0x7B120000 if dtype == "bf16" else 0x7B124924).view(F4)
        stored, used = scale_stored(np.minimum(scale_stored((most.astype("f8") / 448).astype(F4), dtype)[1], limit), dtype)
        smallest = scale_stored(np.full(len(g), 2.0 ** -14 if dtype == "f16" else 2.0 ** -126, F4), dtype)
        return np.where(used > 0, stored, smallest[0]), np.where(used > 0, used, smallest[1]), some
    with np.errstate(all="ignore"):
        log = np.where(some, np.frexp(most)[1] - 1, 0)
    if scheme == "mxfp8":
        e = np.clip(log - 8 + 127, 0, 119 + 127)
        e = np.where(most.astype("f8") > 448 * e8m0(e).astype("f8"), np.minimum(e + 1, 119 + 127), e)
        e = np.where(some, e, 127).astype("u1")
        return e, e8m0(e), some
    if scheme == "mxfp4":
        stored, used, ok = best([((np.clip(log + k + 127, 0, 252)).astype("u1"),
                                  e8m0(np.clip(log + k + 127, 0, 252)), some) for k in (-3, -2, -1)])
        stored = np.where(ok, stored, np.uint8(127))
        return stored, e8m0(stored), some
    if scheme == "nvfp4":
        c0 = float_codes("e4m3", ((most * divisor).astype(F4) / F4(6)).astype(F4)).astype(int)
        tried = []
        for k in range(-4, 10):
            c = c0 + k
            s = (e4m3_value(np.clip(c, 1, 126)) / divisor).astype(F4)
            tried.append((np.clip(c, 1, 126).astype("u1"), s, some & (c >= 1) & (c <= 126) & (s > 0) &
                          (s <= np.uint32(0x7E2AAAAA).view(F4))))
        stored, used, ok = best(tried)
        stored = np.where(ok, stored, np.uint8(8))
        return stored, (e4m3_value(stored) / divisor).astype(F4), ok
    tried = []
    for i in range(12):
        s = ((770 + 35 * i) / 1100 * most.astype("f8")).astype(F4)
        with np.errstate(all="ignore"):
            y = float_values(kind, float_codes(kind, (g / np.where(s > 0, s, F4(1))[:, None]).astype(F4))).astype("f8")
            fit = np.nan_to_num(lanes8(y * g.astype("f8")) / lanes8(y * y)).astype(F4)
        b, s2 = scale_stored(np.where(s > 0, fit, F4(0)), dtype)
        tried.append((b, s2, (s > 0) & (s2 > 0)))
    stored, used, ok = best(tried)
    smallest = scale_stored(np.full(len(g), 2.0 ** -14 if dtype == "f16" else 2.0 ** -126, F4), dtype)
    return np.where(ok, stored, smallest[0]), np.where(ok, used, smallest[1]), ok


def float_group(scheme, x, group, dtype="f32", divisor=F4(1)):
    """codes u8 [rows, columns], scales [rows, groups] as stored, the same as f32."""
    w = to_f32(x).reshape(x.shape[0], -1)
    codes, scales, used = [], [], []
    for first in range(0, w.shape[1], group):
        g = w[:, first:first + group]
        stored, s, some = float_scale(scheme, g, dtype, divisor)
        t = np.where(some[:, None], g, F4(0)) / s[:, None]
        codes.append(float_codes(GRIDS[scheme], t.astype(F4)))
        scales.append(stored)
        used.append(s)
    return np.concatenate(codes, 1), np.stack(scales, 1), np.stack(used, 1)


def dynamic_map(signed):
    """The 256 numbers that codes of states and of scales stand for: in each decade the middles of 2^i cells of [0.1, 1], with both signs;
    of twice as many without."""
    numbers = [0.0, 1.0]
    for i in range(7):
        n = 2 ** (i if signed else i + 1)
        k, step = np.arange(n + 1), float((np.float32(1) - np.float32(0.1)) / np.float32(n))
        edges = np.where(k < (n + 1) // 2, float(np.float32(0.1)) + step * k, 1 - step * (n - k)).astype("f4")
        middles = (np.float32(10 ** float(i - 6)) * ((edges[:-1] + edges[1:]) / np.float32(2))).tolist()
        numbers += middles + ([-x for x in middles] if signed else [])
    return np.sort(np.array(numbers, "f4"))


def double_quant(scheme, x, group):
    """bitsandbytes' double quantization: codes, bytes of scales, outer scales, scales as f32."""
    kind, book = GRIDS[scheme], dynamic_map(False)
    w = to_f32(x).reshape(-1, group)
    _, wanted, some = float_scale(scheme, w, "f32", F4(1))
    most = np.abs(w).max(axis=1)
    outer = np.array([most[i:i + 256].max() for i in range(0, len(most), 256)], F4)
    each = np.repeat(outer, 256)[:len(w)]
    middles = (F4(0.5) * (book[1:-1] + book[2:])).astype(F4)
    near = 1 + ((middles[None] * each[:, None]).astype(F4) < wanted[:, None]).sum(axis=1)
    byte, s, least = np.zeros(len(w), "u1"), np.zeros(len(w), F4), np.full(len(w), np.inf)
    for k in (near - 1, near, near + 1):
        try_s = (book[np.clip(k, 0, 255)] * each).astype(F4)
        ok = some & (k >= 1) & (k <= 255) & (try_s > 0)
        use = np.where(ok, try_s, F4(1))[:, None]
        y = float_values(kind, float_codes(kind, (w / use).astype(F4))).astype("f8")
        e = np.where(ok, lanes8((w.astype("f8") - y * use.astype("f8")) ** 2), np.inf)
        byte, s, least = np.where(e < least, k, byte), np.where(e < least, try_s, s), np.minimum(e, least)
    t = np.where((s > 0)[:, None], w, F4(0)) / np.where(s > 0, s, F4(1))[:, None]
    q = float_codes(kind, t.astype(F4)).reshape(x.shape[0], -1)
    return q, byte.astype("u1"), outer, s.reshape(x.shape[0], -1)


def float_value(scheme, q, s, group):
    return (float_values(GRIDS[scheme], q) * np.repeat(s, group, axis=1)[:, :q.shape[1]]).astype(F4)


def nvfp4_divisor(arrays):
    most = max(np.abs(to_f32(a)).max() for a in arrays)
    return min(F4(2688) / most, F4(3.0e38)) if most > 0 else F4(1)


def q8_0(x):
    """Blocks of 34 bytes as a uint8 array of shape (..., row / 32 * 34), and what they stand for; x finite."""
    w = to_f32(x).reshape(-1, 32)
    step = (np.abs(w).max(axis=1) / F4(127)).astype(F4)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        inverse = F4(1) / step
        t = w * np.where(np.isfinite(inverse), inverse, F4(0))[:, None]
    assert t.dtype == F4
    whole = np.trunc(t)
    q = (whole + np.where(np.abs(t - whole) >= 0.5, np.sign(t), 0)).astype(np.int8)
    with np.errstate(over="ignore"):
        stored = step.astype(np.float16)
    blocks = np.concatenate([stored[:, None].view(np.uint8), q.view(np.uint8)], axis=1)
    y = q.astype(F4) * stored.astype(F4)[:, None]
    return blocks.reshape(x.shape[:-1] + (x.shape[-1] // 32 * 34,)), y.reshape(x.shape)


# ---- figures of the report ------------------------------------------------------------------------------------------
def figures(x, y):
    """Sums, SQNR and so on of y against x, in float64; pairs that are not finite are left out of sums and maximum."""
    x = x.astype(np.float64).reshape(-1)
    y = y.astype(np.float64).reshape(-1)
    ok = np.isfinite(x) & np.isfinite(y)
    with np.errstate(over="ignore"):
        e = (x - y)[ok]
        xx, ee = float(np.sum(x[ok] * x[ok])), float(np.sum(e * e))
    return {"sum_x2": xx, "sum_e2": ee, "sqnr_db": sqnr(xx, ee),
            "max_abs_error": float(np.abs(e).max()) if e.size else 0.0,
            "zeros_before": int((x == 0).sum()), "zeros_after": int((y == 0).sum())}


def sqnr(xx, ee):
    if ee == 0:
        return float("inf")
    return 10 * float(np.log10(xx / ee)) if xx > 0 else float("-inf")

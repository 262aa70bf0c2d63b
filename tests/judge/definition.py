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


def int4_stored(s, dtype):
    """Scales as they are stored, and the same as f32: 8 of them are finite."""
    if dtype == "f16":
        h = np.minimum(s.astype("f2"), np.float16(65504))
        return h, h.astype(F4)
    if dtype == "bf16":
        h = np.minimum(f32_to_bf16(s), np.uint16(0x7DFF))
        return h, bf16_to_f32(h)
    s = np.minimum(s, np.uint32(0x7DFFFFFF).view(F4)).astype(F4)
    return s, s


def int4(x, group, dtype="f32"):
    """codes int8 [rows, columns] from -8 to 7, scales [rows, groups] as stored, the same as f32."""
    w = to_f32(x).reshape(x.shape[0], -1)
    smallest = F4(2.0 ** -14) if dtype == "f16" else F4(2.0 ** -126)
    codes, scales = [], []
    for first in range(0, w.shape[1], group):
        g = w[:, first:first + group]
        most = np.abs(g).max(axis=1).astype("f8")
        best = np.zeros(len(g), F4)
        least = np.full(len(g), np.inf)

        def step(s):
            return np.rint(np.clip(g / s[:, None], F4(-8), F4(7))).astype("f8")

        with np.errstate(all="ignore"):
            for i in range(16):
                s = ((50 + 4 * i) / 100 * most / 8).astype(F4)
                q = step(s)
                s = np.nan_to_num(lanes8(q * g.astype("f8")) / lanes8(q * q)).astype(F4)
                s = int4_stored(s, dtype)[1]
                usable = s > 0
                e = lanes8((g.astype("f8") - step(s) * s[:, None].astype("f8")) ** 2)
                better = usable & (e < least)
                best, least = np.where(better, s, best), np.where(better, e, least)
            q = np.where(best[:, None] > 0, step(np.where(best > 0, best, F4(1))), 0)
        codes.append(q.astype("i1"))
        scales.append(np.where(best > 0, best, smallest))
    stored, used = int4_stored(np.stack(scales, 1).astype(F4), dtype)
    return np.concatenate(codes, 1), stored, used


def int4_value(q, s, group):
    return q.astype(F4) * np.repeat(s, group, axis=1)[:, :q.shape[1]]


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

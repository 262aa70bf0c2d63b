"""test_functions.py - the f64 functions of kernels/functions.h against mpmath, which computes them in hundreds of bits.

    test_functions.py                 random points of all magnitudes: within the bounds below
    test_functions.py --table N       the largest errors of N points in each domain, as docs/numerics.md has them
    test_functions.py --points FILE   writes tests/kernels/function_points.inc

Errors are in units in the last place of the true value. The functions are those of the test program
tests/kernels/test_functions, which answers bits of doubles on standard input.
"""
import math
import os
import struct
import subprocess
import sys
import unittest

try:
    import numpy as np
    from mpmath import mp, mpf
    import mpmath
except ImportError as missing:
    print("SKIPPED: %s for %s" % (missing, sys.executable))
    sys.exit(77)

DRIVER = os.path.join(os.environ.get("VCOMPRESS_BUILD_DIR", ""), "tests", "kernels", "test_functions")
BOUNDS = {"exp": 1.1, "log": 1, "tanh": 2.6, "erf": 1.5, "expm1": 2, "log1p": 1.5, "sin": 0.8, "cos": 0.8, "tan": 2.1,
          "pow": 0.8, "log2": 0.6, "log10": 0.6}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 5e-324, -5e-324, 2.2250738585072014e-308, 1e-9, 1e-30,
           1.7976931348623157e308, -1.7976931348623157e308, 2.0 ** 53, 2.0 ** 53 - 1, float("inf"), float("-inf"),
           float("nan")]
# doubles that come nearest to multiples of pi/2, and where the way of reducing changes
ANGLES = [6381956970095103 * 2.0 ** 797, 5319372648326541 * 2.0 ** 416, 1048575.9999999999, 1048576.0, 1048577.5, 1e22,
          2.0 ** 120, 2.0 ** 1023, 0.7853981633974483, 0.7853981633974484, 1.5707963267948966, 3.141592653589793,
          6.283185307179586, 102943.70813546274, 710.0, 1e5, 1e-5, 12.0]


def computed(name, x, y=None):
    """What the test program makes of these doubles."""
    y = np.zeros_like(x) if y is None else y
    done = subprocess.run([DRIVER, "--stream", name], input=np.stack([x, y], 1).astype("<f8").tobytes(),
                          stdout=subprocess.PIPE, check=True)
    return np.frombuffer(done.stdout, "<f8")


def true_value(name, x, y):
    """In more bits than matter; a Python float where the result is one that is not finite, or certain."""
    inf, nan = float("inf"), float("nan")
    if name == "pow":
        if y == 0 or x == 1:
            return 1.0
        if np.isnan(x) or np.isnan(y):
            return nan
        odd = np.isfinite(y) and y == int(y) and int(y) % 2 == 1
        a = abs(x)
        if a == 0 or np.isinf(x) or np.isinf(y):
            big = (a > 1) == (y > 0)
            value = 1.0 if a == 1 else inf if big else 0.0
            return -value if odd and np.signbit(x) else value
        if x < 0 and y != int(y):
            return nan
        power = mpf(y) * mp.log(mpf(a))
        value = mpf(0) if power < -2000 else mpf(2) ** 2000 if power > 2000 else mp.exp(power)
        return -value if odd and x < 0 else value
    if np.isnan(x) or name in ("sin", "cos", "tan") and np.isinf(x):
        return nan
    if name.startswith("log"):
        edge = -1 if name == "log1p" else 0
        if x <= edge:
            return nan if x < edge else -inf
    if np.isinf(x) or abs(x) > 2000 and name in ("exp", "expm1", "tanh", "erf"):
        low = {"exp": 0.0, "expm1": -1.0, "tanh": -1.0, "erf": -1.0}.get(name)
        high = {"tanh": 1.0, "erf": 1.0}.get(name, inf)
        return high if x > 0 else low
    return {"exp": mp.exp, "log": mp.log, "tanh": mp.tanh, "erf": mp.erf, "expm1": mp.expm1, "log1p": mp.log1p,
            "sin": mp.sin, "cos": mp.cos, "tan": mp.tan, "log2": lambda v: mp.log(v) / mp.log(2), "log10": mp.log10}[name](mpf(x))


def precision(name, x):
    """Bits to compute with: angles need all that are in front of the point, too."""
    return 1400 if name in ("sin", "cos", "tan") and abs(x) > 1e15 else 240


def nearest(value):
    """The double nearest to it."""
    if isinstance(value, float):
        return value
    sign, man, exp, bits = value._mpf_
    top = exp + bits
    if top > 1024:
        return float("-inf") if sign else float("inf")
    if top < -1080 or not man:
        return -0.0 if sign else 0.0
    unit = max(top - 53, -1074)
    whole = int(mpmath.nint(value / mpf(2) ** unit))
    return math.ldexp(whole, unit) if abs(whole) < 2 ** 53 or unit < 971 else math.copysign(math.inf, whole)


def units(found, value):
    if isinstance(value, float) and not np.isfinite(value) or not np.isfinite(found):
        right = nearest(value)
        return 0.0 if found == right or (np.isnan(found) and np.isnan(right)) else 1e9
    value = mpf(value)
    if value == 0:
        return 0.0 if found == 0 else 1e9
    if abs(value) >= mpf(2) ** 1024:
        value = mpf(2) ** 1024 * mpmath.sign(value)
    unit = max(mpmath.frexp(abs(value))[1] - 53, -1074)
    return float(abs(mpf(found) - value) / mpf(2) ** unit)


def points_of(name, n, seed):
    """Domains: {what: (x, y)} of n points each."""
    r = np.random.default_rng(seed)
    every = r.integers(0, 2 ** 64, n, dtype=np.uint64).view("f8")
    wide = 10.0 ** r.uniform(-323, 308, n) * r.choice([-1, 1], n)
    if name == "pow":
        base = 10.0 ** r.uniform(-6, 6, n)
        return {"all bits": (np.abs(every), r.uniform(-3, 3, n)),
                "powers of 0 to 2": (r.uniform(0, 2, n), r.uniform(-1100, 1100, n)),
                "near 1": (1 + r.uniform(-1, 1, n) * 1e-10, r.uniform(-1, 1, n) * 1e13),
                "whole powers": (r.uniform(-10, 10, n), r.integers(-300, 300, n).astype("f8")),
                "denormal and huge results": (base, r.choice([-744.0, -708, 709.7], n) * r.uniform(.95, 1.01, n) / np.log(base)),
                "special": tuple(np.array(SPECIAL)[list(i)] for i in zip(*[(a, b) for a in range(len(SPECIAL))
                                                                         for b in range(len(SPECIAL))]))}
    found = {"all bits": every, "all magnitudes": wide, "-760 to 760": r.uniform(-760, 760, n), "-3 to 3": r.uniform(-3, 3, n),
             "-1e-3 to 1e-3": r.uniform(-1e-3, 1e-3, n), "near 1": 1 + r.uniform(-1, 1, n) * 1e-8,
             "denormal": 5e-324 * r.integers(-10 ** 6, 10 ** 6, n), "special": np.array(SPECIAL)}
    if name in ("sin", "cos", "tan"):
        found["beside multiples of pi/2"] = r.integers(1, 10 ** 6, n) * (np.pi / 2)
        found["huge"] = 2.0 ** r.uniform(20, 1023, n)
        found["special"] = np.array(SPECIAL + ANGLES + [-a for a in ANGLES])
    return {what: (x, np.zeros_like(x)) for what, x in found.items()}


def worst(name, n, seed):
    """{domain: (largest error, where)}"""
    found = {}
    for what, (x, y) in points_of(name, n, seed).items():
        z = computed(name, x, y)
        errors = []
        for a, b, c in zip(x.tolist(), y.tolist(), z.tolist()):
            mp.prec = precision(name, a)
            errors.append((units(c, true_value(name, a, b)), (a, b) if name == "pow" else a))
        found[what] = max(errors, key=lambda e: e[0])
    return found


class Functions(unittest.TestCase):
    def test_bounds(self):
        for name, bound in BOUNDS.items():
            for what, (error, at) in worst(name, 250, 1).items():
                self.assertLessEqual(error, bound, "%s, %s: at %r" % (name, what, at))

    def test_signs_of_zero(self):
        x = np.array([0.0, -0.0])
        for name in ("tanh", "erf", "expm1", "log1p", "sin", "tan"):
            self.assertEqual(np.signbit(computed(name, x)).tolist(), [False, True], name)

    def test_exact_powers(self):
        """What is a whole number, or a root of a square, comes out as one."""
        self.assertEqual(computed("log2", 2.0 ** np.arange(-1074, 1024)).tolist(), list(range(-1074, 1024)))
        self.assertEqual(computed("log10", np.array([float("1e%d" % k) for k in range(23)])).tolist(), list(range(23)))
        r = np.random.default_rng(2)
        x, y = r.integers(-40, 40, 2000).astype("f8"), r.integers(0, 10, 2000).astype("f8")
        self.assertTrue(np.array_equal(computed("pow", x, y), [float(int(a) ** int(b)) for a, b in zip(x, y)]))
        x = r.integers(1, 2 ** 26, 2000).astype("f8")
        self.assertTrue(np.array_equal(computed("pow", x * x, np.full(2000, .5)), x))


def bits(x):
    return "0x%016x" % struct.unpack("<Q", struct.pack("<d", x))[0]


def write_points(path):
    """A few of each domain with the nearest doubles, as entries of an array in C."""
    with open(path, "w") as to:
        to.write("/* function_points.inc - written by tests/judge/test_functions.py --points: function, x, y, and the double nearest "
                 "to\n * the value that mpmath computes. */\n")
        for name in BOUNDS:
            for what, (x, y) in points_of(name, 3, 3).items():
                pairs = list(zip(x.tolist(), y.tolist()))
                for a, b in pairs[::7] if name == "pow" and what == "special" else pairs:
                    mp.prec = precision(name, a)
                    value = nearest(true_value(name, a, b))
                    if np.isnan(value):
                        value = float("nan")
                    to.write('{"%s", %su, %su, %su},\n' % (name, bits(a), bits(b), bits(value)))


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--points":
        write_points(sys.argv[2])
    elif len(sys.argv) > 2 and sys.argv[1] == "--table":
        for name in BOUNDS:
            found = worst(name, int(sys.argv[2]), 4)
            what = max(found, key=lambda k: found[k][0])
            print("| %s | %.2f | %s, %r | %s |" % (name, found[what][0], what, found[what][1], BOUNDS[name]))
    else:
        unittest.main()

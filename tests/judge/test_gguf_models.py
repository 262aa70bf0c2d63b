"""test_gguf_models.py - folders of Hugging Face as GGUF models, with transformers as the judge: it makes tiny models of random
weights (norms and biases, too), reads the files that vcompress made of them, and computes the same logits, bit for bit in f32,
with the same numbers of tokens.

transformers reads GGUF files of few families, so only these are here; tests/cli/test_gguf_folder.py compares names, values and
metadata of all families with llama.cpp's, and docs/formats.md has figures of llama.cpp itself.
"""
import os
import sys
import unittest

from judge_support import Judge, main, run, sha
from test_layouts import missing
from test_safetensors import st_read

if missing("torch", "transformers", "gguf", "tokenizers"):
    sys.exit(77)
import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

TEXTS = ["Hello world, it's 12345 o'clock.", "def f(x):\n\treturn x**2\n\n\n", "  two  spaces ", "Größe", "привет мир", "你好，世界", "a<|end|>b"]
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 128}
# name: configuration, what is beside the sizes
FAMILIES = {"Llama": {"attention_bias": False}, "Mistral": {"sliding_window": None}, "Qwen2": {}, "Phi3": {"pad_token_id": 0}}


def tokenizer(path):
    """Byte-level BPE that cuts texts as Qwen does."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(TEXTS * 8, trainers.BpeTrainer(vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                         special_tokens=["<|end|>"], show_progress=False))
    t.save(path)
    return t


def make(name, folder, rows, **sizes):
    """A model with weights that differ from those of a new one everywhere."""
    config = getattr(transformers, name + "Config")(vocab_size=rows, bos_token_id=1, eos_token_id=0, **{**SIZES, **sizes}, **FAMILIES[name])
    torch.manual_seed(5)
    model = getattr(transformers, name + "ForCausalLM")(config).float().eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * 0.15 + (1.0 if "norm" in key else 0.0))
    model.save_pretrained(folder, safe_serialization=True)
    return model


class Models(Judge):
    def test_logits(self):
        rows = tokenizer(self.path("tokenizer.json")).get_vocab_size() + 3
        ids = torch.randint(0, rows, (1, 40), generator=torch.Generator().manual_seed(3))
        for name in FAMILIES:
            with self.subTest(name):
                folder = self.path(name)
                model = make(name, folder, rows)
                tokenizer(os.path.join(folder, "tokenizer.json"))
                done = run("convert", folder, "-o", os.path.join(folder, "m.gguf"), "-q")
                self.assertEqual(done.code, 0, done.err)
                read = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file="m.gguf", torch_dtype=torch.float32).eval()
                with torch.no_grad():
                    wanted, found = model(ids).logits, read(ids).logits
                self.assertTrue(torch.equal(wanted, found), float((wanted - found).abs().max()))

    def test_way_back(self):
        """A folder that was made of the GGUF file: the same logits, the same tokens."""
        for name in FAMILIES:
            with self.subTest(name):
                folder, back = self.path(name), self.path(name + ".back")
                rows = tokenizer(self.path("tokenizer.json")).get_vocab_size() + 3
                model = make(name, folder, rows)
                t = tokenizer(os.path.join(folder, "tokenizer.json"))
                for args in ((folder, "-o", folder + ".gguf"), (folder + ".gguf", "-o", back + "/")):
                    done = run("convert", *args, "-q")
                    self.assertEqual(done.code, 0, done.err)
                read = transformers.AutoModelForCausalLM.from_pretrained(back).eval()
                ids = torch.randint(0, rows, (1, 40), generator=torch.Generator().manual_seed(3))
                with torch.no_grad():
                    wanted, found = model(ids).logits, read(ids).logits
                self.assertTrue(torch.equal(wanted, found), float((wanted - found).abs().max()))
                read = transformers.AutoTokenizer.from_pretrained(back)
                for text in TEXTS:
                    self.assertEqual(read(text)["input_ids"], t.encode(text).ids, text)

    def logits(self, folder, ids, dtype, **more):
        name = "dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, **{name: dtype}, **more).eval()
        with torch.no_grad():
            return model(ids).logits.float()

    def test_codes_back(self):
        """Folders with the codes of a GGUF file: transformers computes with compressed-tensors what it computes with the file, or where
        it does not read such blocks, with the floats that they mean; and the folder leads to the same codes again."""
        if missing("compressed_tensors") or int(transformers.__version__.split(".")[0]) < 5:
            self.skipTest("needs transformers 5 and compressed-tensors")
        rows = tokenizer(self.path("tokenizer.json")).get_vocab_size() + 3
        ids = torch.randint(0, rows, (1, 40), generator=torch.Generator().manual_seed(3))
        ways = [("Llama", "--gguf", "Q4_0", "--encoder", "llama"), ("Qwen2", "--gguf", "Q4_0"), ("Llama", "--gguf", "Q8_0"),
                ("Llama", "--int4", "--granularity", "group:32"), ("Qwen2", "--nvfp4"), ("Llama", "--mxfp4")]
        for name, *way in ways:
            with self.subTest(" ".join([name, *way])):
                folder = self.path("-".join([name, *way]))
                make(name, folder, rows, intermediate_size=128)
                tokenizer(os.path.join(folder, "tokenizer.json"))
                steps = [("quantize", *way, folder, "-o", folder + ".gguf")]
                if way[0] != "--gguf":
                    steps = [("quantize", "--fp16", folder, "-o", folder + ".half"), ("quantize", *way, folder + ".half", "-o", folder + ".ct"),
                             ("convert", folder + ".ct", "-o", folder + ".gguf")]
                steps += [("convert", "--layout", "compressed-tensors", folder + ".gguf", "-o", folder + ".back/"),
                          ("convert", folder + ".back", "-o", folder + ".back/again.gguf"),
                          ("dequantize", folder + ".gguf", "-o", folder + ".floats/")]
                for args in steps:
                    self.vc(*args, "-q")
                floats = "nv" in way[0] or "mx" in way[0]
                dtype = torch.bfloat16 if floats else torch.float32
                found = self.logits(folder + ".back", ids, dtype)
                wanted = (self.logits(folder + ".floats", ids, dtype) if floats
                          else self.logits(self.path(""), ids, dtype, gguf_file=os.path.basename(folder) + ".gguf"))
                self.assertTrue(torch.equal(wanted, found), float((wanted - found).abs().max()))
                again = self.logits(folder + ".back", ids, dtype, gguf_file="again.gguf") if not floats else wanted
                self.assertTrue(torch.equal(wanted, again), float((wanted - again).abs().max()))
                if way[0] != "--gguf":
                    self.assertEqual(sha(folder + ".gguf"), sha(folder + ".back/again.gguf"))
                    there, back = (st_read(folder + of + "/model.safetensors")[0] for of in (".ct", ".back"))
                    self.assertEqual(set(there), set(back))
                    for part in (p for p in there if ".weight_" in p):
                        a, b = there[part][2], back[part][2]
                        if part.endswith("global_scale"):  # two numbers may have the same inverse, which the file has
                            a, b = (1 / torch.frombuffer(bytearray(x), dtype=torch.float32) for x in (a, b))
                        self.assertEqual((there[part][:2], a), (back[part][:2], b), part)

    def test_tokens(self):
        if int(transformers.__version__.split(".")[0]) < 5:
            self.skipTest("transformers 4 does not know control tokens of GGUF files again")
        folder = self.path("Qwen2")
        rows = tokenizer(self.path("tokenizer.json")).get_vocab_size() + 3
        make("Qwen2", folder, rows)
        t = tokenizer(os.path.join(folder, "tokenizer.json"))
        done = run("convert", folder, "-o", os.path.join(folder, "m.gguf"), "-q")
        self.assertEqual(done.code, 0, done.err)
        read = transformers.AutoTokenizer.from_pretrained(folder, gguf_file="m.gguf")
        for text in TEXTS:
            self.assertEqual(read(text, add_special_tokens=False)["input_ids"], t.encode(text).ids, text)


if __name__ == "__main__":
    main()

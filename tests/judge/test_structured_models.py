"""test_structured_models.py - units of real families removed. In each golden of tests/graph/goldens the weights that read
some units are set to zero, so that nothing depends on them; then they are removed, and the outputs have to stay what they
were: by `vcompress graph --data`, and by transformers, where the interpreter has it, which loads the folder as any other."""
import json
import os
import re
import shutil
import unittest

from judge_support import SOURCE_DIR, Judge, main, np, run

try:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    LOADS = int(transformers.__version__.split(".")[0]) >= 5
except ImportError:
    LOADS = False

GOLDENS = os.path.join(SOURCE_DIR, "tests", "graph", "goldens")
TYPES = {"F32": "f4", "F64": "f8", "I64": "i8", "I32": "i4", "BOOL": "?"}


def read(path):
    with open(path, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        head, data = json.loads(f.read(n)), f.read()
    head.pop("__metadata__", None)
    return {k: np.frombuffer(data[v["data_offsets"][0]:v["data_offsets"][1]], TYPES[v["dtype"]]).reshape(v["shape"])
            for k, v in head.items()}


def write(path, arrays):
    names = {np.dtype(v): k for k, v in TYPES.items()}
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for k, a in arrays.items():
        head[k] = {"dtype": names[a.dtype], "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(np.ascontiguousarray(a).tobytes() for a in arrays.values()))


def groups_of(text):
    """The groups that `graph --couplings` prints and that can be cut: name -> kind, members."""
    out = {}
    for line in text.splitlines():
        if line.startswith("#") or not line.strip() or re.search(r"@\d+!?( =|$)", line):  # experts, each a tensor
            continue
        kind = re.match(r"(neurons|heads|experts|hidden)?( ?\d+)?: ", line)
        members = []
        for m in line[kind.end() if kind else 0:].split(" = "):
            name, axis, block, share, offset, makes = re.fullmatch(
                r"(.*?):(\d+)(?:\*(\d+))?(?:/(\d+))?(?:\+(\d+))?(!)?", m.strip()).groups()
            members.append((name, int(axis), int(block or 1), int(share or 1), int(offset or 0), makes is not None))
        out["%s:%d" % members[0][:2]] = (kind.group(1) or "neurons" if kind else "neurons", members)
    return out


def silence(arrays, members, n, units):
    """Sets to zero what reads the units."""
    marked = any(m[5] for m in members)
    for name, axis, block, share, offset, makes in members:
        a = arrays[name]
        if (makes if marked else axis == 0) or a.ndim < 2:
            continue
        index = [slice(None)] * a.ndim
        index[axis] = [offset + u % (n // share) * block + j for u in units for j in range(block)]
        a[tuple(index)] = 0


# Which axis of a weight has the hidden size, by its name in transformers.
HIDDEN = [(r"(embed_tokens|lm_head|score|qa_outputs)\.weight$", 1), (r"(q|k|v|gate|up)_proj\.weight$", 1),
          (r"(o|down)_proj\.(weight|bias)$", 0), (r"mlp\.gate\.weight$", 1), (r"experts\.gate_up_proj$", 2),
          (r"experts\.down_proj$", 1), (r"(layernorm|(^|\.)norm)\.(weight|bias)$", 0)]


def without_hidden(state, stay):
    """The same weights in torch or NumPy, with these numbers of the hidden size alone."""
    out = {}
    for k, a in state.items():
        axes = [axis for pattern, axis in HIDDEN if re.search(pattern, k)]
        index = [slice(None)] * a.ndim
        for axis in axes[:1]:
            index[axis] = stay
        out[k] = a[tuple(index)]
    return out


FEATURE = 0  # of the hidden size: the same for every token, once it is `keep_apart`


def keep_apart(arrays, routers):
    """Feature 0 of the stream becomes the same positive number for all tokens, and those rows of the routers turn it into a
    score that is never among the highest, and nothing in a sum of exponentials."""
    for name, a in arrays.items():
        if "embed_tokens" in name or "token_embd" in name:
            a[:, FEATURE] = 3
        elif re.search(r"(o_proj|down_proj|w2|attn_output|ffn_down|ffn_down_shexp)\.weight$", name):
            a[FEATURE] = 0
        elif re.search(r"experts\.down_proj$|ffn_down_exps\.weight$", name):
            a[:, FEATURE] = 0
        elif re.search(r"norm\.weight$", name):
            a[FEATURE] = 1
        elif name in routers:
            a[routers[name]] = 0
            a[routers[name], FEATURE] = -1000


class Models(Judge):
    def compute(self, folder, data, out):
        self.vc("graph", folder, "--data", data, "--outputs", self.path(out), "--precision", "f64", "--force", "-q")
        return read(self.path(out))

    def load(self, folder, config, inputs):
        class_ = getattr(transformers, config["architectures"][0])
        settings = class_.config_class.from_pretrained(folder)
        settings._attn_implementation = settings._experts_implementation = "eager"  # others want sizes that they can align
        model = class_.from_pretrained(folder, config=settings, dtype=torch.float32).eval()
        with torch.no_grad():
            out = model(**{k: torch.from_numpy(v.copy()) for k, v in inputs.items()})
        out = {k: v for k, v in out.items() if torch.is_tensor(v)}
        self.assertTrue(out)
        return {k: v.double().numpy() for k, v in out.items()}

    def near(self, a, b, what):
        self.assertEqual(sorted(a), sorted(b))
        for k in a:
            self.assertEqual(a[k].shape, b[k].shape)
            self.assertLessEqual(np.abs(a[k] - b[k]).max(), 1e-5 * np.abs(a[k]).max(), "%s: %s" % (what, k))

    def one(self, name, dims, more=()):
        """Returns what became of it: "cut", or the sentence of the refusal."""
        folder = self.path("model")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(os.path.join(GOLDENS, name), folder)
        dry = run("prune", "--structured", "0.5", "--dims", dims, *more, folder, "-o", self.path("dry"), "--dry-run", "--json")
        if dry.code != 0:
            self.assertEqual(dry.code, 3, dry.err)
            return dry.err
        removed = {g["name"]: (g["before"], g["removed"]) for g in dry.json()["removal"]["groups"] if g["removed"]}
        couplings = groups_of(self.vc("graph", "--couplings", folder).out.decode())
        weights = os.path.join(folder, "model.safetensors")
        arrays = {k: v.copy() for k, v in read(weights).items()}
        lines = []
        for group, (n, units) in removed.items():
            silence(arrays, couplings[group][1], n, units)
            lines.append("%s %s\n" % (group, ",".join(map(str, units))))
        write(weights, arrays)
        with open(self.path("r.txt"), "w") as f:
            f.writelines(lines)
        data = read(os.path.join(GOLDENS, name + ".safetensors"))
        inputs = {k[6:]: v for k, v in data.items() if k.startswith("input.")}
        write(self.path("data.safetensors"), inputs)
        self.vc("prune", "--remove", self.path("r.txt"), *more, folder, "-o", self.path("small"), "-q", "--force")
        small = self.path("small")
        before = self.compute(folder, self.path("data.safetensors"), "before.safetensors")
        if "plain" not in more:
            after = self.compute(small, self.path("data.safetensors"), "after.safetensors")
            self.near(before, after, "%s, %s" % (name, dims))
            if LOADS:
                with open(os.path.join(small, "config.json")) as f:
                    config = json.load(f)
                self.near(self.load(folder, config, inputs), self.load(small, config, inputs),
                          "%s, %s by transformers" % (name, dims))
        shutil.rmtree(small, ignore_errors=True)
        return "cut"

    def experts(self, source, folder, name, arrays, put, data):
        """Removes what --structured chooses, once no token is given to it. `put` stores the arrays in `folder`."""
        dry = run("prune", "--structured", "0.4", "--dims", "experts", source, "-o", self.path("dry" + name), "--dry-run",
                  "--json")
        self.assertEqual(dry.code, 0, dry.err)
        routers = {}
        for g in dry.json()["removal"]["groups"]:
            if g["removed"]:
                router = [m for m in g["members"] if re.search(r"(gate|ffn_gate_inp)\.weight:0$", m)]
                self.assertEqual(len(router), 1, g)
                routers[router[0][:-2]] = g["removed"]
        self.assertTrue(routers)
        n = len(next(iter(routers.values())))
        with open(self.path("r.txt"), "w") as f:
            f.writelines("%s:0 %s\n" % (k, ",".join(map(str, v))) for k, v in routers.items())
        keep_apart(arrays, routers)
        put(arrays)
        small = self.path("small" + name)
        self.vc("prune", "--remove", self.path("r.txt"), folder, "-o", small, "-q", "--force")
        self.near(self.compute(folder, data, "before.safetensors"), self.compute(small, data, "after.safetensors"), name)
        return small, n

    def test_experts(self):
        """Tensors of their own (which are renumbered) and one tensor for all of them."""
        cut = []
        for name in self.all_goldens():
            folder = self.path("model")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(os.path.join(GOLDENS, name), folder)
            weights = os.path.join(folder, "model.safetensors")
            arrays = {k: v.copy() for k, v in read(weights).items()}
            if not any("experts" in k for k in arrays):
                continue
            with open(os.path.join(folder, "config.json")) as f:
                before = json.load(f)
            data = read(os.path.join(GOLDENS, name + ".safetensors"))
            inputs = {k[6:]: v for k, v in data.items() if k.startswith("input.")}
            write(self.path("data.safetensors"), inputs)
            small, n = self.experts(os.path.join(GOLDENS, name), folder, "", arrays, lambda a: write(weights, a),
                                 self.path("data.safetensors"))
            with open(os.path.join(small, "config.json")) as f:
                after = json.load(f)
            key = "num_local_experts" if "num_local_experts" in before else "num_experts"
            self.assertEqual(after, dict(before, **{key: before[key] - n}))
            names = list(read(os.path.join(small, "model.safetensors")))
            numbers = {int(m.group(1)) for m in (re.search(r"experts\.(\d+)\.", k) for k in names) if m}
            self.assertIn(numbers, (set(), set(range(before[key] - n))))
            if LOADS:
                self.near(self.load(folder, before, inputs), self.load(small, after, inputs), name + " by transformers")
            cut.append(name)
            shutil.rmtree(small)
        self.assertGreaterEqual(len(cut), 6)
        print("experts: %s%s" % (", ".join(cut), "" if LOADS else "; without transformers"))

    def test_experts_gguf(self):
        """The same with GGUF, where all experts of a layer are one tensor."""
        for name in ("mixtral-gguf", "qwen2-moe-gguf", "qwen3-moe-gguf"):
            source, file = os.path.join(GOLDENS, name, "model.gguf"), self.path("model.gguf")
            self.vc("dequantize", source, "-o", self.path("plain.safetensors"), "-q", "--force")
            old = read(self.path("plain.safetensors"))
            with open(source, "rb") as f:
                content = f.read()

            def put(arrays):
                out = content
                for k, a in old.items():
                    if not np.array_equal(a, arrays[k]):
                        self.assertEqual(content.count(a.tobytes()), 1, k)
                        out = out.replace(a.tobytes(), arrays[k].tobytes())
                with open(file, "wb") as f:
                    f.write(out)
            data = read(os.path.join(GOLDENS, name + ".safetensors"))
            write(self.path("data.safetensors"), {k[6:]: v for k, v in data.items() if k.startswith("input.")})
            put(old)
            self.experts(source, file, ".gguf", {k: v.copy() for k, v in old.items()}, put, self.path("data.safetensors"))

    def slice_in_torch(self, folder, stay, inputs):
        with open(os.path.join(folder, "config.json")) as f:
            class_ = getattr(transformers, json.load(f)["architectures"][0])
        settings = class_.config_class.from_pretrained(folder)
        settings._attn_implementation = settings._experts_implementation = "eager"
        whole = class_.from_pretrained(folder, config=settings, dtype=torch.float32)
        settings.hidden_size = len(stay)
        part = class_(settings).eval()
        part.load_state_dict(without_hidden(whole.state_dict(), stay))
        with torch.no_grad():
            out = part(**{k: torch.from_numpy(v.copy()) for k, v in inputs.items()})
        return {k: v.double().numpy() for k, v in out.items() if torch.is_tensor(v)}

    def test_hidden(self):
        """What is left of the hidden size computes something else, so the judge is the same slicing by hand."""
        cut, tied = [], 0
        for name in self.all_goldens():
            folder, small = os.path.join(GOLDENS, name), self.path("small")
            done = run("prune", "--structured", "0.3", "--dims", "hidden", "--round-to", "4", folder, "-o", small, "--json")
            if done.code != 0:
                self.assertEqual(done.code, 3, done.err)
                self.assertRegex(done.err, "head_dim|is an output|have other units|no key for its|states one hidden size", name)
                continue
            groups = [g for g in done.json()["removal"]["groups"] if g["removed"]]
            self.assertEqual([g["kind"] for g in groups], ["hidden"])
            n, gone = groups[0]["before"], groups[0]["removed"]
            stay = [i for i in range(n) if i not in gone]
            self.assertEqual(len(stay) % 4, 0)
            old, new = read(os.path.join(folder, "model.safetensors")), read(os.path.join(small, "model.safetensors"))
            expected = without_hidden(old, stay)
            self.assertEqual(sorted(expected), sorted(new))
            for k in new:
                self.assertEqual((new[k].shape, new[k].tobytes()), (expected[k].shape, np.ascontiguousarray(expected[k]).tobytes()), k)
            with open(os.path.join(folder, "config.json")) as f:
                config = json.load(f)
            with open(os.path.join(small, "config.json")) as f:
                self.assertEqual(json.load(f), dict(config, hidden_size=len(stay)))
            tied += "lm_head.weight" not in new and config["architectures"][0].endswith("ForCausalLM")
            data = read(os.path.join(GOLDENS, name + ".safetensors"))
            inputs = {k[6:]: v for k, v in data.items() if k.startswith("input.")}
            write(self.path("data.safetensors"), inputs)
            own = self.compute(small, self.path("data.safetensors"), "own.safetensors")
            if LOADS:
                sliced = self.slice_in_torch(folder, stay, inputs)
                self.near(sliced, self.load(small, config, inputs), name + ", sliced in torch")
                there = inputs.get("attention_mask", np.ones(1)) != 0  # what padding computes is nobody's business
                for k in own:
                    gap = np.abs(own[k] - sliced[k])
                    gap = gap[there] if there.shape == gap.shape[:2] else gap
                    self.assertLessEqual(gap.max(), 1e-5 * np.abs(sliced[k]).max(), name)
            cut.append(name)
            shutil.rmtree(small)
        self.assertGreater(len(cut), 10)
        self.assertGreater(tied, 1)  # embeddings that are the head, too
        print("hidden: %s%s" % (", ".join(cut), "" if LOADS else "; without transformers"))

    def multiply_adds(self, path):
        """Of a graph, with the sizes that a report states."""
        text = self.vc("graph", path, "--json").json()["blocks"][0]["macs"]
        if not isinstance(text, str):
            return text
        sizes = dict(batch=1, sequence=128, decoder_sequence=128, height=224, width=224, floor=int)
        return eval(text.replace("/", "//"), sizes)

    def test_multiply_adds(self):
        """Before and after, as the graphs of the two models have them."""
        n = 0
        for name in self.all_goldens() + [g for g in os.listdir(GOLDENS) if os.path.exists(os.path.join(GOLDENS, g, "model.gguf"))]:
            source, out = os.path.join(GOLDENS, name), self.path("out")
            if os.path.exists(os.path.join(source, "model.gguf")):
                source, out = os.path.join(source, "model.gguf"), self.path("out.gguf")
            for dims in ("neurons", "heads", "experts", "hidden"):
                done = run("prune", "--structured", "0.4", "--dims", dims, "--round-to", "4", source, "-o", out, "--json", "--force")
                if done.code != 0:
                    continue
                found = done.json()["removal"]["multiply_adds"]
                self.assertEqual((found["before"], found["after"]), (self.multiply_adds(source), self.multiply_adds(out)),
                                 "%s, %s" % (name, dims))
                n += 1
        self.assertGreater(n, 80)

    def same_files(self, a, b, what):
        """Two files, or two folders of files."""
        names = sorted(os.listdir(a)) if os.path.isdir(a) else [""]
        self.assertEqual(names, sorted(os.listdir(b)) if os.path.isdir(b) else [""])
        for name in names:
            with open(os.path.join(a, name) if name else a, "rb") as x, open(os.path.join(b, name) if name else b, "rb") as y:
                self.assertEqual(x.read(), y.read(), "%s: %s" % (what, name))

    def test_layers_and_units(self):
        """In one run, in either order, and one after the other through files: the same bytes."""
        for name, dims, layers in [("llama", "neurons,heads", ""), ("gemma3", "neurons", ""), ("t5", "neurons,heads", "decoder.block"),
                                   ("whisper", "neurons", "model.decoder.layers"), ("qwen3-moe", "neurons,experts", ""),
                                   ("mixtral", "experts", ""), ("mistral", "hidden", ""), ("llama-gguf/model.gguf", "neurons,heads", ""),
                                   ("qwen3-moe-gguf/model.gguf", "experts", "")]:
            source, end = os.path.join(GOLDENS, name), ".gguf" if name.endswith("gguf") else ""
            a, b, c = (self.path(x + end) for x in "abc")
            depth = ["--drop-layers", "1" if name in ("gemma3", "t5") else "0"] + (["--layers", layers] if layers else [])
            units = ["--structured", "0.4", "--dims", dims, "--round-to", "4"]
            self.vc("prune", *depth, source, "-o", a, "-q", "--force")
            self.vc("prune", *units, a, "-o", b, "-q", "--force")
            self.vc("prune", *depth, *units, source, "-o", c, "-q", "--force")
            self.same_files(b, c, name)
            passes = ["--pass", "prune " + " ".join(units), "--pass", "prune " + " ".join(depth)]
            self.vc("prune", *units, source, "-o", a, "-q", "--force")
            self.vc("prune", *depth, a, "-o", b, "-q", "--force")
            self.vc("run", *passes, source, "-o", c, "-q", "--force")
            self.same_files(b, c, name + ", units first")
            self.vc("quantize", "--fp16", b, "-o", a + ".npz", "-q", "--force")
            self.vc("run", *passes, "--pass", "quantize --fp16", source, "-o", c + ".npz", "-q", "--force")
            self.same_files(a + ".npz", c + ".npz", name + ", and quantized")

    def all_goldens(self):
        return sorted(n for n in os.listdir(GOLDENS) if os.path.exists(os.path.join(GOLDENS, n, "config.json")))

    def test_neurons(self):
        fate = {name: self.one(name, "neurons") for name in self.all_goldens()}
        refused = {n: f for n, f in fate.items() if f != "cut"}
        for name, sentence in refused.items():
            self.assertRegex(sentence, "config.json (has no key|states one)|at once; keep the groups", name)
        self.assertGreater(len(fate), 3 * len(refused), refused)
        print("neurons: %d families cut, refused: %s%s" % (
            len(fate) - len(refused), ", ".join(sorted(refused)), "" if LOADS else "; without transformers"))

    def test_heads(self):
        fate = {name: self.one(name, "heads") for name in self.all_goldens()}
        refused = {n: f for n, f in fate.items() if f != "cut"}
        for name, sentence in refused.items():
            self.assertRegex(sentence, "head_dim|nothing can be removed|config.json (has no key|states one)|at once; keep the groups", name)
        self.assertGreater(len(fate) - len(refused), 3, refused)
        print("heads: %d families cut, refused: %s" % (len(fate) - len(refused), ", ".join(sorted(refused))))


if __name__ == "__main__":
    main()

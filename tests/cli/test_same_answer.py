"""Random questions whether a model fits, asked in four ways: fit, plan, shrink --dry-run and the bare command. Their answers agree:
  - the same need for the same weights and the same program, of fit and plan also the same verdict;
  - a chain that plan names runs, and of its file fit says what plan said;
  - where plan finds nothing, or less than was asked for, or removes neurons, fit --dtype TYPE calls no type "fits" that the model takes;
  - the largest batch and context that fit finds fit, and one more does not;
  - shrink takes the chain that plan names for the format of the output and its usual program; where there is none it says what plan has for others;
    the file that it writes needs what was counted.
The seed is fixed: question number N is the same in every run. What disagrees is printed with its command lines; from 80 questions on there is
an answer of every kind, or it fails.
Python's standard library alone. Usage: test_same_answer.py PROGRAM GRAPH_MODELS [FIRST [COUNT [SEED]]]; SEED: other questions of the same
numbers (default 0)."""

import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from made_models import bert, decoder, folder, llama, tokenizer

PROGRAM, GRAPH_MODELS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
FIRST = int(sys.argv[3]) if len(sys.argv) > 3 else 0
COUNT = int(sys.argv[4]) if len(sys.argv) > 4 else 500
CHAINS = 1 if COUNT < 400 else 3  # recipes that are run beside the best
SEED = int(sys.argv[5]) if len(sys.argv) > 5 else 0
MIB = 1 << 20
MARGIN = 256 * MIB
CARDS = ["GeForce GTX 1660 Ti", "GeForce RTX 4060", "GeForce RTX 3080 10GB", "GeForce RTX 3060 12GB", "Tesla T4", "GeForce RTX 4080", "L4",
         "GeForce RTX 4090", "GeForce RTX 5090", "A100 SXM4 40GB", "L40S", "H100 SXM5 80GB", "H200 SXM 141GB", "GeForce RTX 3050",
         "GeForce RTX 2080 Ti", "A10", "GeForce RTX 5070 Ti", "A100 PCIe 80GB", "V100 SXM2 16GB", "GeForce GTX 1080 Ti"]
# --dtype, and the options of quantize that make such weights
TYPES = {"f16": "--fp16", "bf16": "--bf16", "int8": "--int8", "int6-g128": "--scheme int6", "int5-g128": "--scheme int5", "int4-g128": "--int4",
         "int4-g32": "--scheme int4/group:32", "int3-g128": "--int3", "int2-g128": "--int2", "nf4": "--nf4", "fp4": "--fp4", "fp8-channel": "--fp8",
         "mxfp8": "--mxfp8", "mxfp4": "--mxfp4", "nvfp4": "--nvfp4",
         **{name.lower(): "--gguf " + name for name in ("Q8_0 Q6_K Q5_K_M Q5_K_S Q5_1 Q5_0 Q4_K_M Q4_K_S Q4_1 Q4_0 IQ4_NL IQ4_XS Q3_K_L Q3_K_M Q3_K_S "
                                                        "Q2_K TQ2_0 TQ1_0 Q2_0 Q1_0").split()}}


# What is counted: ends of a question, and answers that were compared.
KINDS = ["as it is fits", "a recipe fits", "nothing fits", "largest", "chains", "types", "rows", "shrunk", "proved", "gates", "dropped"]
LONE = {"plain.npz": "llama-448", "encoder.npz": "bert-F32", "plain.pt": "qwen2-256", "plain.safetensors": "olmo2-256"}  # files without a graph, of folders
RUNTIMES = ("native", "dequantize", "layerwise", "llama.cpp", "onnxruntime", "bitsandbytes", "transformers", "pytorch", "vllm")


# ---- models ----

class Models:
    """Made when they are asked for the first time, in the folder that the test runs in."""

    def __init__(self):
        self.made = {}
        self.rows = {}
        for kind in ("llama", "qwen2", "qwen3", "phi3", "gemma2", "olmo2", "mixtral"):
            for n, (width, layers) in enumerate(((256, 2), (448, 3))):
                dtype = ("F32", "BF16", "F16")[(len(self.rows) + n) % 3]
                self.rows["%s-%d" % (kind, width)] = lambda path, k=kind, w=width, l=layers, d=dtype: self.decoder(path, k, w, l, d)
        self.rows["llama-tied"] = lambda path: self.decoder(path, "llama", 512, 2, "BF16", tied=True)
        self.rows["llama-words"] = lambda path: self.decoder(path, "llama", 256, 1, "F32", words=20011)
        self.rows["llama-untold"] = lambda path: folder(path, *llama(448, 1216, 2, 7, 7, 5003, False))  # without a tokenizer: no GGUF of it
        for kind in ("strange", "mpt"):  # architectures that are not known: by their sizes, and by what was measured of the type
            self.rows[kind + "-448"] = lambda path, k=kind: self.other(path, k)
        for dtype, width in (("F32", 384), ("F16", 512)):
            self.rows["bert-" + dtype] = lambda path, d=dtype, w=width: folder(path, *bert(w, 4 * w, 2, w // 64, 6007), d)
        for name, of in LONE.items():
            self.rows[name] = lambda path, o=of: self.run("convert", "-o", path, self.path(o))
        self.rows["states.pt"] = self.checkpoint
        for name, of, words in (("f16", "llama-256", "--fp16"), ("q8", "llama-448", "--gguf Q8_0"), ("q4", "qwen2-448", "--gguf Q4_K_M"),
                                ("phi", "phi3-448", "--fp16"), ("gemma", "gemma2-256", "--bf16"), ("mixtral", "mixtral-448", "--gguf Q8_0"),
                                ("olmo2", "olmo2-448", "--gguf IQ4_XS")):
            self.rows[name + ".gguf"] = lambda path, o=of, w=words: self.run("quantize", *w.split(), "--rest", "fp16", "-o", path, self.path(o)) \
                if "gguf" not in w else self.run("quantize", *w.split(), "-o", path, self.path(o))
        for name, of, words in (("coded-int4", "llama-448", "--int4"), ("coded-int8", "qwen3-256", "--int8"), ("coded-nf4", "llama-448", "--nf4"),
                                ("coded-bert", "bert-F32", "--int8 --layout bitsandbytes"), ("coded-fp8", "olmo2-448", "--fp8"),
                                ("coded-mlx", "llama-448", "--int4 --layout mlx"), ("coded-gptq", "qwen2-448", "--int4 --layout gptq"),
                                ("coded.npz", "llama-256", "--int8")):
            self.rows[name] = lambda path, o=of, w=words: self.run("quantize", *w.split(), "--rest", "fp16", "-o", path, self.path(o))
        for name in ("convolutional.onnx", "encoder.onnx", "decoder.onnx", "pictures.onnx"):
            self.rows[name] = lambda path: shutil.copy(os.path.join(GRAPH_MODELS, path), path)
        for name, words in (("7b", ("llama", 4096, 11008, 32, 32, 32, 32000)), ("13b", ("llama", 5120, 13824, 40, 40, 40, 32000)),
                            ("8b", ("llama", 4096, 14336, 32, 32, 8, 128256)), ("phi", ("phi3", 3072, 8192, 32, 32, 32, 32064)),
                            ("qwen", ("qwen2", 1536, 8960, 28, 12, 2, 151936)), ("experts", ("mixtral", 4096, 14336, 32, 32, 8, 32000)),
                            ("gemma", ("gemma2", 2304, 9216, 26, 8, 4, 256000))):
            self.rows["alone-" + name] = lambda path, w=words: self.alone(path, *w)

    def names(self):
        return sorted(self.rows)

    def path(self, name):
        """The path of a model, which is there then."""
        if name not in self.made:
            self.made[name] = name + "/config.json" if name.startswith("alone") else name
            self.rows[name](name)
        return self.made[name]

    def decoded(self, name):
        """The file that dequantize writes of a model of codes."""
        path = "decoded-" + name
        if path not in self.made:
            self.run("dequantize", "-o", path, self.path(name))
            self.made[path] = path
        return path

    def run(self, *words):
        done = subprocess.run([PROGRAM, *words, "-q", "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, (words, done.stdout)

    def decoder(self, path, kind, width, layers, dtype, tied=False, words=3001):
        heads = width // 64
        folder(path, *decoder(kind, width, width * 11 // 256 * 64, layers, heads, heads if heads % 2 else heads // 2, words, tied), dtype)
        tokenizer(path)

    def other(self, path, kind):
        self.decoder(path, "llama", 448, 2, "F16")
        with open(path + "/config.json") as f:
            config = json.load(f)
        with open(path + "/config.json", "w") as f:
            json.dump(dict(config, model_type=kind, architectures=[kind.capitalize() + "ForCausalLM"]), f)

    @staticmethod
    def checkpoint(path):
        """A training checkpoint: the weights of a small Llama, and two states of each."""
        tensors = llama(128, 320, 2, 2, 1, 1009, False)[1]
        shapes = ["x".join(map(str, shape)) for _, shape in tensors]
        make = os.path.join(os.path.dirname(os.path.abspath(__file__)), "make_pt.py")
        words = [*["state_dict.%s=%d:%s" % (name, n, shape) for n, ((name, _), shape) in enumerate(zip(tensors, shapes))],
                 *["optimizer.state.%d.%s=%d:%s" % (n, state, len(tensors) * k + n, shape)
                   for k, state in ((1, "exp_avg"), (2, "exp_avg_sq")) for n, shape in enumerate(shapes)]]
        subprocess.run([sys.executable, "-B", make, path, *words], check=True)

    def alone(self, path, kind, *sizes):
        os.mkdir(path)
        with open(path + "/config.json", "w") as f:
            json.dump(dict(decoder(kind, *sizes, False)[0], torch_dtype="bfloat16"), f)


# ---- questions ----

class Questions:
    def __init__(self):
        self.models = Models()
        self.wrong = []
        self.counts = {}

    def ask(self, *words, codes=(0, 1)):
        """A document, None where the program refuses."""
        done = subprocess.run([PROGRAM, *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        if done.returncode not in codes:
            self.refusal = done.stderr.strip()
            return None
        return json.loads(done.stdout)

    def run(self, line):
        words = shlex.split(line)
        done = subprocess.run([PROGRAM, *words[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr.strip()

    def run_quietly(self, *words):
        subprocess.run([PROGRAM, *words, "-q"], check=True)

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def say(self, number, what, *lines):
        self.wrong.append((number, what))
        print("question %d: %s" % (number, what))
        for line in lines:
            print("    vcompress %s" % (line if isinstance(line, str) else shlex.join(line)))
        sys.stdout.flush()

    def options(self, draw, name):
        """Of the model's use; those of training are for all but GGUF, codes and what has no graph."""
        alone = name.endswith((".npz", ".pt", ".safetensors"))
        if (alone and (name not in LONE or draw.random() < 0.4)) or draw.random() < 0.05:
            return ["--weights-only"]
        if alone:
            return ["--graph", self.models.path(LONE[name]) + "/config.json", *self.use(draw, LONE[name])]
        return self.use(draw, name)

    def use(self, draw, name):
        decodes = not name.startswith(("bert", "encoder")) and not name.endswith(".onnx") and "bert" not in name
        if draw.random() < 0.4:
            return []
        if not name.startswith(("coded", "alone")) and not name.endswith((".gguf", ".onnx")) and draw.random() < 0.25:
            words = ["--mode", "train", "--batch", str(draw.choice((1, 2, 4, 8))), "--seq", str(draw.choice((16, 64)))]
            return words + draw.choice(([], ["--optimizer", "sgd"], ["--amp", "autocast"], ["--lora", "4"], ["--offload", "optimizer"], ["--offload", "all"],
                                        ["--recompute", "sqrt"], ["--dp", "2", "--zero", "2"], ["--pp", "2"], ["--accum", "2"])) + self.room(draw)
        words = draw.choice(([], ["--batch", "2"], ["--batch", "4"]))
        if decodes:
            context = draw.choice((512, 2048, 4096)) if name.startswith("alone") else draw.choice((64, 300, 1000))
            words = words + draw.choice(([], ["--ctx", str(context)], ["--ctx", str(context), "--kv-dtype", "fp16"]))
        if draw.random() < 0.2:
            words = words + ["--runtime", draw.choice(RUNTIMES)]
        elif draw.random() < 0.1 and not name.startswith("alone"):
            return words + ["--device-kind", "mcu"]
        if "mixtral" in name or "experts" in name:
            words = words + draw.choice(([], ["--n-cpu-moe", "1"], ["--tp", "2"]))
        return words + self.room(draw)

    @staticmethod
    def room(draw):
        """What has to stay free, and what others use."""
        return draw.choice(([], [], [], ["--margin", "64MiB"], ["--margin", "10%"], ["--used", "100MiB"]))

    def device(self, draw, name, model, options):
        """A card, or a size that is just enough for one of the recipes, or one byte less."""
        if name.startswith("alone") and draw.random() < 0.7:
            return ["--gpu", draw.choice(CARDS) + draw.choice(("", "", ":2"))]
        plan = self.ask("plan", "--memory", "64GiB", "--all", *options, model)
        needs = [recipe["need_bytes"] for recipe in plan["recipes"]] if plan is not None else [400 * MIB]
        size = draw.choice(needs) + (MARGIN if "mcu" not in options else 0) + draw.choice((0, 0, -1, 4096, -MIB, 3 * MIB))
        if "mcu" in options or draw.random() < 0.7:
            return ["--memory", str(max(size, 1))]
        return ["--gpu", self.card(size), "--gpus-file", "cards.csv"]

    @staticmethod
    def card(size):
        """The name of a card of a file, of which a program sees about that many bytes."""
        with open("cards.csv", "w") as f:
            f.write("name,memory_gb,cuda_mib\nCard of the file,%d,%.6f\n" % (size // 1000000000 + 1, size / MIB))
        return "Card of the file"

    def question(self, number):
        draw = random.Random(number + 1000003 * SEED)
        name = self.models.names()[number % len(self.models.names())]
        model = self.models.path(name)
        options = self.options(draw, name)
        device = self.device(draw, name, model, options)
        asked = [*device, *options, model]
        plan, fit = self.ask("plan", *asked), self.ask("fit", *asked)
        if (plan is None) != (fit is None):
            self.say(number, "one answers, one refuses: " + self.refusal, ["plan", *asked], ["fit", *asked])
        if plan is None or fit is None:
            return self.count("refused")
        best = plan["recipes"][plan["best"]] if plan["best"] is not None else None
        self.count("nothing fits" if best is None else "as it is fits" if best["passes"] == [] and not best["does_less"] else "a recipe fits")
        self.as_it_is(number, asked, plan, fit)
        self.largest(number, draw, [*device, *options], model)
        self.chains(number, draw, asked, plan, best)
        if "train" not in options:
            self.types(number, draw, name, asked, device, options, model, plan, best)
            self.bare(number, name, options, model)
            if (options in ([], ["--weights-only"]) or (options[0] == "--graph" and len(options) == 2)) and not name.startswith("alone"):
                self.must(number, draw, model, options)
            if name == "states.pt":
                self.dropped(number, draw, model)
            if options == [] and "--memory" in device and not name.startswith("alone"):
                self.shrink(number, device, model, number % 3 == 0)

    def as_it_is(self, number, asked, plan, fit):
        first, answer = plan["recipes"][0], fit["devices"][0]
        if (first["need_bytes"], first["verdict"]) != (answer["need_bytes"], answer["verdict"]):
            self.say(number, "as it is: plan %d %s, fit %d %s" % (first["need_bytes"], first["verdict"], answer["need_bytes"], answer["verdict"]),
                     ["plan", *asked], ["fit", *asked])

    def largest(self, number, draw, asked, model):
        """The largest batch or context that fits, and one more."""
        word = draw.choice(("--batch", "--ctx"))
        if "--weights-only" in asked or (word == "--ctx" and "train" in asked):
            return
        at = asked.index(word) if word in asked else len(asked)
        rest = asked[:at] + asked[at + 2:]
        line = ["fit", *rest, "--max-" + word[2:], model]
        answer = self.ask(*line)
        most = answer["devices"][0].get("max_" + word[2:]) if answer is not None else None
        if most is None:
            return
        self.count("largest")
        for n, fits in ((most, True), (most + 1, False)):
            direct = ["fit", *rest, word, str(n), model]
            said = self.ask(*direct) if n > 0 else None
            if said is not None and (said["devices"][0]["verdict"] == "fits") != fits and not (not fits and word == "--ctx" and most == answer["max_positions"]):
                self.say(number, "%s %d: %s" % (line[-2], most, said["devices"][0]["verdict"]), line, direct)

    def chains(self, number, draw, asked, plan, best):
        """The best recipe and others, as files."""
        some = [recipe for recipe in plan["recipes"] if recipe["commands"]]
        for recipe in {id(r): r for r in ([best] if best is not None else []) + draw.sample(some, min(len(some), CHAINS))}.values():
            lines = recipe["commands"]
            if not asked[-1].endswith("config.json"):
                made = [self.run(line + " --force -q") for line in lines[:-1]]
                if any(code != 0 for code, _, _ in made):
                    self.say(number, "a line of plan fails: " + made[0][2], ["plan", *asked], *[line[len("vcompress "):] for line in lines])
                    continue
            code, text, message = self.run(lines[-1] + " --json")
            answer = json.loads(text)["devices"][0] if code in (0, 1) else {"need_bytes": -1, "verdict": message}
            if (answer["need_bytes"], answer["verdict"]) != (recipe["need_bytes"], recipe["verdict"]):
                self.say(number, "'%s': plan %d %s, fit %d %s" % (recipe["what"], recipe["need_bytes"], recipe["verdict"], answer["need_bytes"], answer["verdict"]),
                         ["plan", *asked], *[line[len("vcompress "):] for line in lines])
            self.count("chains")
            for line in lines[:-1]:
                words = shlex.split(line)
                made = words[words.index("-o") + 1]
                if os.path.isdir(made):
                    shutil.rmtree(made)
                elif os.path.exists(made):
                    os.unlink(made)

    @staticmethod
    def loads(options, dtype, model):
        """Whether a program that was named loads such weights; one that loads other files of them is another question."""
        runtime = options[options.index("--runtime") + 1] if "--runtime" in options else None
        blocks = dtype in TYPES and "--gguf" in TYPES[dtype]
        if runtime == "llama.cpp":
            return blocks
        return runtime is None or dtype in ("f16", "bf16") or (not blocks and dtype not in ("nf4", "fp4"))

    def types(self, number, draw, name, asked, device, options, model, plan, best):
        """What fit says of weights in types, beside what plan says."""
        whole = best is not None and not best["does_less"] and best["pruned"] == 0
        for dtype in draw.sample(sorted(TYPES), 6):
            line = ["fit", *device, *options, "--dtype", dtype, model]
            answer = self.ask(*line) if self.loads(options, dtype, model) else None
            if answer is None:
                continue
            self.count("types")
            made = not any("quantize makes no such weights" in note for note in answer["notes"])
            answer = answer["devices"][0]
            if answer["verdict"] in ("fits", "weights fit") and not whole and made:
                self.say(number, "plan: %s, fit: '%s' fits" % (best["what"] if best is not None else "nothing fits", dtype), ["plan", *asked], line)
            for recipe in plan["recipes"]:
                words = recipe["passes"][0] if len(recipe["passes"]) == 1 and not recipe["does_less"] and not re.search("keys|experts|devices", recipe["what"]) else ""
                words = re.sub(" --(rest|layout) [a-z0-9]+", "", words)
                if words == "quantize " + TYPES[dtype] and "--runtime" not in recipe["commands"][-1] and recipe["need_bytes"] != answer["need_bytes"]:
                    self.say(number, "'%s': plan %d, fit --dtype %s %d" % (recipe["what"], recipe["need_bytes"], dtype, answer["need_bytes"]),
                             ["plan", *asked], line)

    def bare(self, number, name, options, model):
        if [word for word in options if word.startswith("--") and word != "--ctx"]:
            return
        line = [model, "--bytes", *options]
        done = subprocess.run([PROGRAM, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            self.say(number, "refused: " + done.stderr, line)
            return
        rows = re.findall(r"^  (as stored|as loaded|f32|f16|int8|int4/group:128|f32, decoded|f16, decoded) +[\d,]+ B +([\d,]+) B ", done.stdout, re.M)
        whole = ["as loaded"] if any(row[0] == "as loaded" for row in rows) else ["as stored"]
        for row, need in rows:
            # of codes, a row of floats is the file that dequantize writes
            asked = ["fit", "--memory", "64GiB", *options] + (["--dtype", row.split(",")[0]] if row[0] != "a" else [])
            asked.append(self.models.decoded(name) if "decoded" in row else model)
            answer = self.ask(*asked) if row[0] != "a" or row in whole else None
            if answer is not None and not (row[0] in "fi" and "weights" in answer["devices"][0]["verdict"]):
                self.count("rows")
                if answer["devices"][0]["need_bytes"] != int(need.replace(",", "")):
                    self.say(number, "'%s': bare %s, fit %d" % (row, need, answer["devices"][0]["need_bytes"]), line, asked)

    def must(self, number, draw, model, options):
        """quantize --must-fit beside what fit says of the file that is written; the card just has room, or not."""
        words = TYPES[draw.choice(sorted(TYPES))].split()
        output = "must.gguf" if "--gguf" in words else "must" + os.path.splitext(model)[1]
        line = ["quantize", *words, "--rest", "fp16", "-q", "-o", output, model] if "--gguf" not in words else ["quantize", *words, "-q", "-o", output, model]
        if self.ask(*line) is None:
            return
        answer = self.ask("fit", "--memory", "64GiB", *options, output, codes=(0, 1, 3))
        if answer is None:
            return self.say(number, "refused: " + self.refusal, line, ["fit", "--memory", "64GiB", *options, output])
        need = answer["devices"][0]["need_bytes"]
        card = ["--gpus-file", "cards.csv", "--%s", self.card(need + MARGIN + draw.choice((0, 0, 4096, -4096, -MIB)))]
        asked = ["fit", *[word.replace("%s", "gpu") for word in card], *options, output]
        verdict = self.ask(*asked, codes=(0, 1, 3))["devices"][0]["verdict"]
        shutil.rmtree(output, ignore_errors=True)
        if os.path.exists(output):
            os.unlink(output)
        gate = [*line, *[word.replace("%s", "must-fit") for word in card], *options]
        said = self.ask(*gate, "-n")
        self.count("gates")
        gates = said["gates"]["each"] if said is not None else [{"value": self.refusal, "passed": None}]
        if gates[0]["passed"] != (verdict in ("fits", "weights fit")) or (verdict != "unknown" and gates[0]["value"] != need):
            self.say(number, "fit %d %s, --must-fit %s" % (need, verdict, gates), asked, gate)

    def dropped(self, number, draw, model):
        """shrink without the states of an optimizer: what it counts, what it writes, and what convert leaves."""
        size = draw.choice((2, 3, 4, 6, 9, 14, 20, 40)) * os.path.getsize(model) // 40
        line = ["shrink", "--bytes", str(size), "--drop", "optimizer", "-o", "dropped.pt", model]
        counted = self.ask(*line, "-n")
        self.count("dropped")
        if counted is None:
            self.run_quietly("convert", "--drop", "optimizer", "-o", "dropped.pt", model)
            if not re.search("no weight has to change|nothing to do", self.refusal) or os.path.getsize("dropped.pt") > size:
                self.say(number, self.refusal, line)
        elif counted["chosen"] is not None:
            chosen = counted["candidates"][counted["chosen"]]
            made = self.ask(*line)
            chosen = made["candidates"][made["chosen"]] if made is not None and made["written"] else chosen  # it may be a mixture, which is measured
            if made is None or not made["written"] or os.path.getsize("dropped.pt") > size or abs(os.path.getsize("dropped.pt") - chosen["file_bytes"]) > 64:
                self.say(number, "'%s': counted %d, written %s" % (chosen["name"], chosen["file_bytes"], made and made["proof"]), line)
        for made in ("dropped.pt", "dropped.pt.recipe"):
            if os.path.exists(made):
                os.unlink(made)

    def shrink(self, number, device, model, kept):
        """The candidates of shrink beside plan's, and the choice. kept: by a program that keeps codes, as plan's recipes are run."""
        asked = [*device, "--without", "cache,batch,context,experts", model]
        plan = self.ask("plan", *asked)
        best = plan["recipes"][plan["best"]] if plan["best"] is not None else None
        if plan is None or plan["unknown"] is not None:  # shrink counts weights alone then, and says so
            return
        output = "shrunk" + os.path.splitext(model)[1]
        line = ["shrink", *device, *(["--native"] if kept else []), "-o", output, model]
        answer = self.ask(*line, "-n")
        if answer is None and kept and "nothing to do" in self.refusal:  # the file's own codes, where something keeps them
            if not any(self.ask("fit", *device, "--runtime", keeper, model)["devices"][0]["verdict"] == "fits" for keeper in ("native", "vllm", "bitsandbytes", "llama.cpp")):
                self.say(number, "shrink: " + self.refusal, line)
            return
        if answer is None:
            needs = plan["best"] != 0
            if needs and "no candidate can be made" not in self.refusal:
                self.say(number, "plan: %s, shrink: %s" % (best["what"] if best else "nothing fits", self.refusal), ["plan", *asked], line)
            return
        self.count("shrunk")
        if best is not None and plan["best"] == 0:
            self.say(number, "plan: as it is, shrink has something to do", ["plan", *asked], line)
        # of another format, or for a program that is not the usual one of the output
        own = [r for r in plan["recipes"] if r["passes"] and (model.endswith(".gguf") or "gguf" not in " ".join(r["passes"]))
               and (kept or "--runtime" not in r["commands"][-1])]
        first = next((r for r in own if r["verdict"] in ("fits", "weights fit")), None)
        chosen = answer["candidates"][answer["chosen"]] if answer["chosen"] is not None else None
        if chosen is None and (first is not None or (best is not None and best["what"] not in answer["missed"])):
            self.say(number, "plan: %s, shrink: %s" % (best["what"], answer["missed"]), ["plan", *asked], line)
        elif chosen is not None and not kept and (list(chosen["passes"]) != self.lines(first) if first is not None else best is None):
            self.say(number, "plan: %s, shrink: %s" % (first and first["passes"], chosen["passes"]), ["plan", *asked], line)
        # IQ4_NL, which stands for IQ4_XS in rows that its blocks do not divide, has blocks of Q4_0's size
        sizes = [c["file_bytes"] for c in answer["candidates"] if c.get("reason") is None and c["file_bytes"] and c["name"] != "IQ4_XS"]
        if model.endswith(".gguf") and len(set(sizes)) != len(sizes):
            self.say(number, "shrink tries the same file twice", line)
        for c in answer["candidates"]:
            for recipe in own:
                coded = kept == ("--runtime" in recipe["commands"][-1]) and ("bitsandbytes" in c["name"]) == ("bitsandbytes" in recipe["what"])
                if list(c["passes"]) == self.lines(recipe) and coded and c["need_bytes"] != recipe["need_bytes"]:
                    self.say(number, "'%s': shrink %d, plan '%s' %d" % (c["name"], c["need_bytes"], recipe["what"], recipe["need_bytes"]), ["plan", *asked], line)
        if chosen is not None:
            proof = self.ask(*line)
            self.count("proved")
            if proof is None or not proof["written"] or proof["proof"]["need_bytes"] != chosen["need_bytes"]:
                self.say(number, "'%s': counted %d, proved %s" % (chosen["name"], chosen["need_bytes"], proof["proof"] if proof else self.refusal), line)
            for made in (output, output + ".recipe"):
                if os.path.isdir(made):
                    shutil.rmtree(made)
                elif os.path.exists(made):
                    os.unlink(made)

    @staticmethod
    def lines(recipe):
        """shrink's layout is an option of the run."""
        return [re.sub(" --layout [a-z]+", "", line) for line in recipe["passes"]]


def main():
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as path:
        os.chdir(path)
        questions = Questions()
        for number in range(FIRST, FIRST + COUNT):
            questions.question(number)
        os.chdir(here)
    print(", ".join("%s %d" % item for item in sorted(questions.counts.items())))
    print("%d questions, %d models: %d contradictions" % (COUNT, len(questions.models.made), len(questions.wrong)))
    never = [kind for kind in KINDS if kind not in questions.counts] if COUNT >= 80 else []
    if never:
        print("no answer was compared of: " + ", ".join(never))
    sys.exit(1 if questions.wrong or never else 0)


main()

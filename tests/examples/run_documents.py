"""run_documents.py VCOMPRESS SOURCE [DOCUMENT [FOLDER]] - the commands of README.md and of the documents below run as they stand.

    ```console      lines that begin with "$ " are commands ("> " goes on with one); the other lines are what they print
    $ vcompress inspect model.npz
    ...             any lines; within a line, "..." stands for any text
    ```
    ```sh           commands, each with exit status 0 (1, where its comment says "exit 1"); "\\" at the end goes on
    vcompress quantize --int8 model.npz
    ```

A block whose first command is none of PROGRAMS (but ./quickstart, cmake) is left alone; a command whose comment says that it takes
minutes is a dry run. A document is one session of a shell, in a folder of its own with the digits network and small models of the names that
documents use, made here; FOLDER is a new one that stays. README.md runs in a fresh clone behind ./quickstart, in which there is nothing else;
its blocks that begin "# llama/ and qwen3/ stand for" run among the models, too. Without DOCUMENT all run but recover.md, whose networks train for
long: check_distilled.sh runs this one and looks at the files. Exit status 1: something differs."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

# The documents, and how many commands each has at least: a block that is not found any more fails.
DOCUMENTS = {"README.md": 25, "docs/report.md": 3, "docs/commands.md": 30, "docs/pruning.md": 1, "docs/merge.md": 1, "docs/guides/folder.md": 6, "docs/guides/shards.md": 5,
             "docs/guides/gate.md": 15, "docs/guides/fit.md": 4, "docs/guides/recover.md": 4, "docs/guides/shrink.md": 6, "docs/guides/data.md": 9, "docs/guides/embedded.md": 5,
             "docs/guides/text.md": 6}
TRAINS = "docs/guides/recover.md"
TEXT = "docs/guides/text.md"
PROGRAMS = ("vcompress", "curl", "seq", "export", "echo")
STANDS_FOR = re.compile(r"# .* stands? for ")
MINUTES = re.compile(r"#.*\bminutes?\b")
MINILM = """{"model_type": "bert", "architectures": ["BertModel"]}"""
ADAPTER = """{"peft_type": "LORA", "r": 8, "lora_alpha": 16}"""
LLAMA = """{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}"""
QWEN3 = """{"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512, "tie_word_embeddings": true}"""
BYTES = """{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}, "decoder": {"type": "ByteLevel"},
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}}"""
PIPELINE = {"model_index.json": """{"_class_name": "StableDiffusionPipeline", "text_encoder": ["transformers", "CLIPTextModel"],
"unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"]}""",
            "text_encoder/config.json": """{"model_type": "clip_text_model"}""",
            "unet/config.json": """{"_class_name": "UNet2DConditionModel"}""",
            "vae/config.json": """{"_class_name": "AutoencoderKL"}"""}


def field(number, data):
    """A field of a protocol buffer: bytes, or a number below 128."""
    if isinstance(data, int):
        return bytes([number << 3, data])
    n = len(data)
    return bytes([number << 3 | 2]) + (bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7 & 127 | 128, n >> 14])) + data


def onnx_model():
    """image [n, 8, 8] -> Flatten -> Gemm -> Relu -> Gemm -> y."""
    def node(op, inputs, output):
        return field(1, b"".join(field(1, i.encode()) for i in inputs) + field(2, output.encode()) + field(4, op.encode()))

    def weights(name, *shape):
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = struct.pack("<%df" % n, *(((i * 7919 + 5) % 97 - 48) / 400 for i in range(n)))
        return field(5, b"".join(field(1, d) for d in shape) + field(2, 1) + field(8, name.encode()) + field(9, values))

    def value(number, name, *shape):
        dims = b"".join(field(1, field(2, d.encode()) if isinstance(d, str) else field(1, d)) for d in shape)
        return field(number, field(1, name.encode()) + field(2, field(1, field(1, 1) + field(2, dims))))
    graph = (node("Flatten", ["image"], "flat") + node("Gemm", ["flat", "fc1", "b1"], "h") + node("Relu", ["h"], "r") +
             node("Gemm", ["r", "fc2", "b2"], "y") + field(2, b"net") + weights("fc1", 64, 32) + weights("b1", 32) + weights("fc2", 32, 10) +
             weights("b2", 10) + value(11, "image", "n", 8, 8) + value(12, "y", "n", 10))
    return field(1, 8) + field(7, graph) + field(8, field(1, b"") + field(2, 21))


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def make_models(vcompress, source, at):
    """The models that documents name, in the folder at."""
    cli = os.path.join(source, "tests", "cli")

    def make(script, *words):
        subprocess.run([sys.executable, os.path.join(cli, script), *words], cwd=at, check=True)

    def convert(*words):
        subprocess.run([vcompress, "convert", "-q", *words], cwd=at, check=True)

    os.symlink(os.path.join(source, "examples"), os.path.join(at, "examples"))
    for name in os.listdir(os.path.join(source, "examples", "digits")):
        os.symlink(os.path.join(source, "examples", "digits", name), os.path.join(at, name))
    os.mkdir(os.path.join(at, "build"))
    os.symlink(os.path.join(source, "examples", "phi-3-mini"), os.path.join(at, "phi-3-mini"))
    make("make_npz.py", "model.npz", "layers.0.weight:f4:128x256", "layers.0.bias:f4:128", "layers.1.weight:f4:256x128",
         "embed.weight:f4:200x128")
    convert("model.npz", "-o", "model.safetensors")
    make("make_npz.py", "pairs.npz", "a.weight_orig:f4:64x64", "a.weight_mask:f4:64x64:%2", "a.bias:f4:64")
    convert("pairs.npz", "-o", "model.pt")
    make("make_npz.py", "blocks.npz", *("blk.%d.ffn_up.weight:f4:96x64" % k for k in range(3)))
    convert("blocks.npz", "-o", "blocks.gguf")
    convert("--max-shard-size", "25KiB", "blocks.gguf", "-o", "llama")
    for name in os.listdir(at + "/llama"):
        os.rename(at + "/llama/" + name, at + "/" + name)
    os.rmdir(at + "/llama")
    make("make_npz.py", "statistics.npz", "blk.0.ffn_up.weight.in_sum2:f4:64:%2")
    convert("statistics.npz", "-o", "imatrix.gguf")
    for name in ("pairs.npz", "blocks.npz", "blocks.gguf", "statistics.npz"):
        os.remove(at + "/" + name)
    make("make_pt.py", "training.pt", "model.a.weight=0:64x64", "optimizer.state.0.exp_avg=1:64x64", "optimizer.state.0.exp_avg_sq=2:64x64")
    os.mkdir(at + "/whole")
    shutil.copy(at + "/model.safetensors", at + "/whole")
    convert("--max-shard-size", "64KiB", "whole", "-o", "llama")
    shutil.rmtree(at + "/whole")
    write(at + "/llama/config.json", LLAMA)
    make("make_npz.py", "factors.npz", "base_model.model.layers.0.lora_A.weight:f4:8x256", "base_model.model.layers.0.lora_B.weight:f4:128x8")
    write(at + "/my-adapter/adapter_config.json", ADAPTER)
    convert("factors.npz", "-o", "my-adapter/adapter_model.safetensors")
    os.remove(at + "/factors.npz")
    write(at + "/minilm/config.json", MINILM)
    shutil.copy(at + "/model.safetensors", at + "/minilm")
    for name, text in PIPELINE.items():
        write(at + "/stable-diffusion/" + name, text)
    shutil.copy(at + "/model.safetensors", at + "/stable-diffusion/text_encoder")
    for part in ("unet", "vae"):
        shutil.copy(at + "/model.safetensors", at + "/stable-diffusion/" + part + "/diffusion_pytorch_model.safetensors")
    layer = "model.layers.0."
    make("make_npz.py", "qwen3.npz", "model.embed_tokens.weight:f4:40x64", "model.norm.weight:f4:64",
         *(layer + n + ".weight:f4:64" for n in ("input_layernorm", "post_attention_layernorm")),
         *(layer + "self_attn.%s_norm.weight:f4:32" % n for n in "qk"), layer + "self_attn.q_proj.weight:f4:128x64",
         *(layer + "self_attn.%s_proj.weight:f4:64x64" % n for n in "kv"), layer + "self_attn.o_proj.weight:f4:64x128",
         *(layer + "mlp.%s_proj.weight:f4:64x64" % n for n in ("gate", "up", "down")))
    write(at + "/qwen3/config.json", QWEN3)
    write(at + "/qwen3/tokenizer.json", BYTES)
    convert("qwen3.npz", "-o", "qwen3/model.safetensors")
    os.remove(at + "/qwen3.npz")
    with open(at + "/model.onnx", "wb") as f:
        f.write(onnx_model())
    write(at + "/recipe.txt", "prune --sparsity 0.5\nquantize --int8\n")


def make_text_model(vcompress, source, at):
    """my-model, a Llama that learned from the documents of the repository, corpus.txt that it learned from, and held-out.txt."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    vocab = {chr(b) if b in plain else chr(256 + others.index(b)): b for b in range(256)}
    merges = [pair.split() for pair in "t h,th e,Ġ a,i n,Ġ the,e r,o n,r e,Ġ s,e n,a t,o r,e s,Ġ o,a n,i s,Ġ f,in g,e d,a l,Ġ t,Ġ c,Ġ w,o f,Ġ of".split(",")]
    for pair in merges:
        vocab.setdefault("".join(pair), len(vocab))
    n = len(vocab)
    text = ""
    for name in sorted(os.listdir(source + "/docs")):
        if name.endswith(".md"):
            with open(source + "/docs/" + name, encoding="utf-8") as f:
                text += f.read()
    write(at + "/corpus.txt", text[:400000])
    write(at + "/held-out.txt", text[400000:430000])
    layers = [("input_layernorm", "48"), ("post_attention_layernorm", "48"), ("self_attn.q_proj", "48x48"), ("self_attn.k_proj", "24x48"),
              ("self_attn.v_proj", "24x48"), ("self_attn.o_proj", "48x48"), ("mlp.gate_proj", "96x48"), ("mlp.up_proj", "96x48"), ("mlp.down_proj", "48x96")]
    subprocess.run([sys.executable, os.path.join(source, "tests", "cli", "make_npz.py"), "start.npz", "model.embed_tokens.weight:f4:%dx48" % (n + 1),
                    "model.norm.weight:f4:48", "lm_head.weight:f4:%dx48" % (n + 1), *("model.layers.%d.%s.weight:f4:%s" % (i, *layer) for i in range(2) for layer in layers)],
                   cwd=at, check=True)
    write(at + "/start/config.json", json.dumps({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": n + 1, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "eos_token_id": n}))
    write(at + "/start/tokenizer.json", json.dumps({
        "added_tokens": [{"id": n, "content": "<|endoftext|>", "special": True, "normalized": False}], "model": {"type": "BPE", "vocab": vocab, "merges": merges},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}, "decoder": {"type": "ByteLevel"}}))
    for words in (["convert", "-q", "start.npz", "-o", "start/model.safetensors"],
                  ["distill", "-q", "--alpha", "0", "--data", "corpus.txt", "--length", "64", "--steps", "60", "--batch", "16", "--lr", "0.01", "--student", "start",
                   "-o", "my-model"]):
        subprocess.run([vcompress, *words], cwd=at, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(at + "/start")
    os.remove(at + "/start.npz")


def blocks_of(text):
    """(kind, lines) of the blocks of code."""
    return [(kind, body.splitlines()) for kind, body in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)]


def shell_commands(lines):
    """The commands of a block of sh: (command, exit status)."""
    whole, commands = "", []
    for line in lines:
        if not whole and (not line.strip() or line.startswith("#")):
            continue
        whole += line + "\n"
        if not line.endswith("\\"):
            commands.append((whole, 1 if re.search(r"#.*\bexit 1\b", line) else 0))
            whole = ""
    return commands


def console_commands(lines):
    """The commands of a block of a console: (command, the lines that it prints)."""
    commands = []
    for line in lines:
        if line.startswith("$ "):
            commands.append([line[2:], []])
        elif line.startswith("> "):
            commands[-1][0] += "\n" + line[2:]
        elif commands:
            commands[-1][1].append(line)
    return commands


def is_like(shown, printed):
    """Whether the lines shown, in which ... stands for anything, are those printed. What a run takes is its own; empty lines at the end
    separate commands."""
    printed = printed.rstrip("\n") + "\n" if printed else ""
    pattern = ""
    while shown and not shown[-1]:
        shown = shown[:-1]
    for line in shown:
        if line == "...":
            pattern += r"(?:.*\n)*?"
        else:
            line = re.sub(r"^(wrote \S+ in ).*", r"\1...", line)
            pattern += ".*".join(re.escape(part) for part in line.split("...")) + "\n"
    return re.fullmatch(pattern, printed) is not None


class Session:
    """A shell in a folder, to which one command after the other is given."""

    def __init__(self, at):
        self.shell = subprocess.Popen(["sh"], cwd=at, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, command):
        """(exit status, what it printed)"""
        end = b"\nend of a command: "
        self.shell.stdin.write(b"{ %s\n} </dev/null\nprintf '\\nend of a command: %%d\\n' $?\n" % command.encode())
        self.shell.stdin.flush()
        text = b""
        while True:
            line = self.shell.stdout.readline()
            if not line:
                raise EOFError("the shell ended behind: " + command)
            text += line
            found = re.search(re.escape(end) + rb"(\d+)\n$", text)
            if found:
                return int(found.group(1)), text[:found.start()].decode("utf-8", "replace")

    def close(self):
        self.shell.stdin.close()
        self.shell.wait()


def fresh_clone(vcompress, source, at):
    """What is in a clone, and build/ as ./quickstart leaves it: the program and the network that it makes."""
    os.mkdir(at)
    for name in os.listdir(source):
        if name not in ("build", ".git"):
            os.symlink(os.path.join(source, name), os.path.join(at, name))
    os.mkdir(at + "/build")
    os.symlink(vcompress, at + "/build/vcompress")


def run(document, source, at, models, without_hash):
    """Runs the commands of one document in the folder at, or among the models; how many ran, and what is wrong."""
    with open(os.path.join(source, document), encoding="utf-8") as f:
        blocks = blocks_of(f.read())
    n, wrong, sessions = 0, [], {at: Session(at)}
    for kind, lines in blocks:
        commands = shell_commands(lines) if kind == "sh" else console_commands(lines) if kind == "console" else []
        if not commands or commands[0][0].split()[0] not in PROGRAMS:
            continue
        place = models if STANDS_FOR.match(lines[0]) else at
        if place not in sessions:
            sessions[place] = Session(place)
        for command, expected in commands:
            n += 1
            if without_hash and re.search(r"--(digest|sha256)\b", command):
                continue
            if MINUTES.search(command):
                command = command.split("#")[0] + " --dry-run"
            status, printed = sessions[place].run(command)
            if kind == "sh" and status != expected:
                wrong.append("exit status %d, not %d: %s%s" % (status, expected, command, printed[-500:]))
            elif kind == "console" and not is_like(expected, printed):
                wrong.append("$ %s\nshown:\n%s\nprinted:\n%s" % (command, "\n".join(expected), printed))
    _, found = sessions[at].run("command -v vcompress")
    if os.path.exists(at + "/build/vcompress") and os.path.realpath(os.path.dirname(found.strip())) != os.path.realpath(at + "/build"):
        wrong.append("the commands do not find the program of the clone but " + found)
    for session in sessions.values():
        session.close()
    return n, wrong


def quickstart_differs(source):
    """The commands of README.md's and report.md's first console block are those of quickstart."""
    with open(os.path.join(source, "quickstart"), encoding="utf-8") as f:
        shown = [line[5:].strip() for line in f if line.startswith("show ") and "{" not in line]
    wrong = []
    for document in ("README.md", "docs/report.md"):
        with open(os.path.join(source, document), encoding="utf-8") as f:
            first = next(lines for kind, lines in blocks_of(f.read()) if kind == "console")
        if [command for command, _ in console_commands(first)] != shown:
            wrong.append("%s shows other commands than quickstart runs: %s" % (document, shown))
    return wrong


def main():
    vcompress, source = (os.path.abspath(word) for word in sys.argv[1:3])
    os.environ["LC_ALL"] = "C.UTF-8"
    os.environ["PROGRAM"] = vcompress
    top = tempfile.mkdtemp()
    wrong = quickstart_differs(source)
    try:
        os.mkdir(top + "/bin")
        os.symlink(vcompress, top + "/bin/vcompress")
        write(top + "/bin/curl", "#!/bin/sh\n[ $# -eq 2 ] && exec cat model.npz\n"  # stands for a server
              "for to; do :; done; mkdir -p big; exec cp llama/${2##*/} $to\n")
        os.chmod(top + "/bin/curl", 0o755)
        os.environ["PATH"] = top + "/bin:" + os.environ["PATH"]
        os.mkdir(top + "/models")
        make_models(vcompress, source, top + "/models")
        version = subprocess.run([vcompress, "--version"], stdout=subprocess.PIPE, check=True).stdout
        for document in sys.argv[3:4] or [name for name in DOCUMENTS if name != TRAINS]:
            at = sys.argv[4] if len(sys.argv) > 4 else os.path.join(top, document.replace("/", "-"))
            models = top + "/models of " + os.path.basename(document)
            shutil.copytree(top + "/models", models, symlinks=True)
            if document == "README.md":
                fresh_clone(vcompress, source, at)
            else:
                os.rename(models, at)
            if document == TEXT:
                make_text_model(vcompress, source, at)
            n, found = run(document, source, at, models, b"nettle" not in version)
            print("%s: %d commands, %d wrong" % (document, n, len(found)))
            wrong += ["%s: %s" % (document, text) for text in found]
            if n < DOCUMENTS[document]:
                wrong.append("%s: %d commands were found, %d should be there" % (document, n, DOCUMENTS[document]))
    finally:
        shutil.rmtree(top)
    for text in wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

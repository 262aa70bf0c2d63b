"""test_memory.py - what training keeps, against PyTorch: every storage that autograd saves is counted once, without
parameters and inputs; and the states that torch.optim makes. Networks are lists of layers and, where transformers is
there, small models from their configurations, in eager mode."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import torch.nn as nn
except ImportError as missing:
    print("SKIPPED: %s for %s" % (missing, sys.executable))
    sys.exit(77)
def optional(name):
    try:
        return __import__(name, fromlist=["x"])
    except Exception:  # a library that is there for another version of torch fails in its own way
        return None


transformers, peft = optional("transformers"), optional("peft")
torchvision, bitsandbytes = optional("torchvision"), optional("bitsandbytes.functional")
if transformers is not None:
    transformers.logging.set_verbosity_error()

PROGRAM = os.environ.get("VCOMPRESS_PROGRAM", "vcompress")


if not hasattr(torch.Tensor, "untyped_storage"):
    torch.Tensor.untyped_storage = lambda tensor: tensor.storage().untyped()


def saved_bytes(model, inputs, compute):
    """Bytes of the storages that the backward pass needs: floats that come from weights, integers of pooling, masks."""
    own = {t.untyped_storage().data_ptr() for t in list(model.parameters()) + list(model.buffers()) + list(inputs)}
    found = {}
    alive = []

    def pack(tensor):
        alive.append(tensor)
        if type(tensor.grad_fn).__name__ == "PowBackward0":  # torch 1 keeps the result, too, of no use to it
            return tensor
        pointer = tensor.untyped_storage().data_ptr()
        from_weights = tensor.requires_grad or tensor.grad_fn is not None
        if pointer not in own and (from_weights or not tensor.is_floating_point() or tensor.dim() == 1):
            found[pointer] = tensor.untyped_storage().nbytes()
        elif pointer not in own:
            maybe[pointer] = tensor.untyped_storage().nbytes()
        return tensor
    maybe = {}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = compute()
    return sum(found.values()), maybe, result


class Memory(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.dir.cleanup()

    def estimate(self, name, text, *args):
        path = os.path.join(self.dir.name, name)
        with open(path, "w") as f:
            f.write(text)
        out = subprocess.run([PROGRAM, "estimate", "--json", "--mode", "train", path] + list(args),
                             stdout=subprocess.PIPE, check=True).stdout
        return json.loads(out)

    def net(self, text, model, shape, *args):
        """Kept for the backward pass, the loss included."""
        x = torch.randn(*shape)
        target = torch.zeros(shape[0], dtype=torch.long)

        def compute():
            y = model(x)
            return nn.functional.cross_entropy(y.flatten(1) if y.dim() > 2 else y, target)
        model.train()
        theirs, other, _ = saved_bytes(model, [x, target], compute)
        # statistics of a normalization are saved without a gradient of their own: they are all that is left
        theirs += sum(other.values())
        ours = self.estimate("net.txt", text, "--batch", str(shape[0]), *args)
        got = ours["components"]["activations"]["bytes"]
        # cross-entropy keeps a number, too: the weight of all targets
        self.assertLessEqual(abs(got - theirs), 16, (got, theirs))

    def test_networks(self):
        layer = nn.Sequential
        self.net("input x [batch, 3, 32, 32]\nconv conv1 64 kernel=3\nrelu\nconv conv2 128 kernel=3\nrelu\nflatten\n"
                 "linear fc 10\n",
                 layer(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 128, 3), nn.ReLU(), nn.Flatten(),
                       nn.Linear(100352, 10)), (4, 3, 32, 32))
        self.net("input x [batch, 3, 16, 16]\nconv c 8 kernel=3 pad=1\nbatchnorm b\nrelu\nmaxpool kernel=2\n"
                 "conv d 8 kernel=3 pad=1 groups=8\nbatchnorm e\nrelu\nglobalavgpool\nflatten\nlinear fc 10\n",
                 layer(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                       nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                       nn.Flatten(), nn.Linear(8, 10)), (4, 3, 16, 16))
        self.net("input x [batch, 32]\nlinear a 64\ngelu\nlinear b 64\nsilu\nlinear c 64\ntanh\nlinear d 64\nsigmoid\n"
                 "linear e 10\n",
                 layer(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 64), nn.Tanh(),
                       nn.Linear(64, 64), nn.Sigmoid(), nn.Linear(64, 10)), (8, 32))
        self.net("input x [batch, 3, 8, 8]\nconv a 4 kernel=1\navgpool kernel=2\nflatten\nlinear b 12\nlayernorm c\n"
                 "linear d 5\n",
                 layer(nn.Conv2d(3, 4, 1), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 12), nn.LayerNorm(12),
                       nn.Linear(12, 5)), (2, 3, 8, 8))

    def test_optimizers(self):
        text = "input x [batch, 24]\nlinear a 40\nrelu\nlinear b 10\n"
        for name, make in (("sgd", lambda p: torch.optim.SGD(p, lr=0.1)),
                           ("momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
                           ("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW),
                           ("adafactor", getattr(torch.optim, "Adafactor", None))):
          for dtype, word in ((torch.float32, "f32"), (torch.bfloat16, "bf16"), (torch.float64, "f64")):
            if make is None:  # torch before 2.5
                continue
            with self.subTest((name, word)):
                model = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 10)).to(dtype)
                optimizer = make(model.parameters())
                model(torch.randn(3, 24).to(dtype)).sum().backward()
                optimizer.step()
                states = sum(v.numel() * v.element_size() for s in optimizer.state.values() for v in s.values()
                             if torch.is_tensor(v) and v.dim() > 0)
                gradients = sum(p.grad.numel() * p.grad.element_size() for p in model.parameters())
                ours = self.estimate("net.txt", text, "--optimizer", name, "--dtype", word)["components"]
                self.assertEqual((ours["optimizer"]["bytes"], ours["gradients"]["bytes"]), (states, gradients))

    def block(self, config, model, tokens):
        """The difference of two models of which one has a layer more: what a layer keeps."""
        kept = []
        for layers in (1, 2):
            config.num_hidden_layers = layers
            if getattr(config, "layer_types", None):
                config.layer_types = ["full_attention"] * layers
            config.architectures = [model.__name__]
            net = model(config).eval()
            ids = torch.zeros(2, tokens, dtype=torch.long)
            theirs, other, _ = saved_bytes(net, [ids], lambda: net(ids, use_cache=False))
            # what has no gradient but belongs to a row or a matrix of scores; not the tables of rotary positions
            theirs += sum(b for b in other.values() if b == 2 * tokens * 4)
            ours = self.estimate("config.json", json.dumps(config.to_dict()), "--batch", "2", "--seq", str(tokens),
                                 "--attention", "eager", "--no-dropout")
            kept.append((ours["components"]["activations"]["bytes"], theirs))
        return kept[1][0] - kept[0][0], kept[1][1] - kept[0][1]

    @unittest.skipIf(transformers is None, "no transformers")
    def test_bert(self):
        config = transformers.BertConfig(vocab_size=50, hidden_size=32, num_attention_heads=4, intermediate_size=96,
                                         max_position_embeddings=64)
        config._attn_implementation = "eager"
        ours, theirs = self.block(config, transformers.BertModel, 24)
        self.assertEqual(ours, theirs)

    @unittest.skipIf(transformers is None, "no transformers")
    def test_llama(self):
        for kv in (4, 2):
            config = transformers.LlamaConfig(vocab_size=50, hidden_size=32, num_attention_heads=4,
                                              num_key_value_heads=kv, intermediate_size=88, max_position_embeddings=64)
            config._attn_implementation = "eager"
            ours, theirs = self.block(config, transformers.LlamaForCausalLM, 24)
            self.assertEqual(ours, theirs)

    @unittest.skipIf(transformers is None, "no transformers")
    def test_gpt2(self):
        config = transformers.GPT2Config(vocab_size=50, n_embd=32, n_head=4, n_positions=64)
        config._attn_implementation = "eager"
        ours, theirs = self.block(config, transformers.GPT2Model, 24)
        self.assertEqual(ours, theirs)

    # ---- whole models of the worked examples ----

    def whole(self, model, inputs, compute):
        model.train(False)
        theirs, other, loss = saved_bytes(model, inputs, compute)
        loss.backward()
        optimizer = torch.optim.Adam(model.parameters())
        optimizer.step()
        states = sum(v.numel() * v.element_size() for s in optimizer.state.values() for v in s.values()
                     if torch.is_tensor(v) and v.dim() > 0)
        return theirs + sum(other.values()), states, sum(p.grad.numel() * 4 for p in model.parameters())

    @unittest.skipIf(transformers is None, "no transformers")
    def test_bert_base(self):
        """The whole of BERT-base, two sentences of 16 words. Beside what is counted there are the numbers of positions,
        8 bytes each, and the weight of all targets."""
        config = transformers.BertConfig(num_labels=2, architectures=["BertForSequenceClassification"])
        config._attn_implementation = "eager"
        net = transformers.BertForSequenceClassification(config)
        ids, target = torch.zeros(2, 16, dtype=torch.long), torch.zeros(2, dtype=torch.long)
        theirs, states, gradients = self.whole(net, [ids, target],
                                               lambda: nn.functional.cross_entropy(net(ids).logits, target))
        ours = self.estimate("config.json", json.dumps(config.to_dict()), "--optimizer", "adam", "--batch", "2", "--seq", "16",
                             "--attention", "eager", "--no-dropout")["components"]
        self.assertEqual((ours["optimizer"]["bytes"], ours["gradients"]["bytes"]), (states, gradients))
        self.assertLessEqual(abs(theirs - ours["activations"]["bytes"]), 2 * 16 * 8 + 16)

    @unittest.skipIf(torchvision is None, "no torchvision")
    def test_resnet50(self):
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "memory", "cases"))
        import nets
        net = torchvision.models.resnet50()
        x, target = torch.randn(2, 3, 224, 224), torch.zeros(2, dtype=torch.long)
        net.train()
        theirs, other, loss = saved_bytes(net, [x, target], lambda: nn.functional.cross_entropy(net(x), target))
        ours = self.estimate("net.txt", nets.resnet(2, (3, 4, 6, 3), True), "--optimizer", "adam")
        self.assertEqual(ours["model"]["trained"], sum(p.numel() for p in net.parameters()))
        self.assertLessEqual(abs(theirs + sum(other.values()) - ours["components"]["activations"]["bytes"]), 16)

    # ---- adapters, schemes ----

    @unittest.skipIf(peft is None or transformers is None, "no peft")
    def test_lora(self):
        """The weights of adapters, their states and, by layer, what they keep."""
        for word, targets in (("qv", ["q_proj", "v_proj"]), ("attention", ["q_proj", "k_proj", "v_proj", "o_proj"]),
                              ("all", "all-linear")):
            kept = []
            for layers in (2, 3):
                config = transformers.LlamaConfig(vocab_size=100, hidden_size=64, num_hidden_layers=layers, num_attention_heads=4,
                                                  num_key_value_heads=2, intermediate_size=96, max_position_embeddings=64)
                config._attn_implementation = "eager"
                config.architectures = ["LlamaForCausalLM"]
                net = peft.get_peft_model(transformers.LlamaForCausalLM(config), peft.LoraConfig(
                    r=4, target_modules=targets, lora_dropout=0.0, task_type="CAUSAL_LM"))
                trained = [p for p in net.parameters() if p.requires_grad]
                ids = torch.zeros(2, 24, dtype=torch.long)
                theirs, other, out = saved_bytes(net, [ids], lambda: net(ids, use_cache=False).logits)
                theirs += sum(b for b in other.values() if b == 2 * 24 * 4)
                optimizer = torch.optim.AdamW(trained)
                out.sum().backward()
                optimizer.step()
                states = sum(v.numel() * v.element_size() for s in optimizer.state.values() for v in s.values()
                             if torch.is_tensor(v) and v.dim() > 0)
                ours = self.estimate("config.json", json.dumps(config.to_dict()), "--optimizer", "adamw", "--batch", "2", "--seq",
                                     "24", "--attention", "eager", "--no-dropout", "--lora", "4", "--lora-targets", word)
                self.assertEqual(ours["model"]["trained"], sum(p.numel() for p in trained))
                parts = ours["components"]
                self.assertEqual(parts["parameters"]["bytes"], sum(p.numel() * 4 for p in net.parameters()))
                self.assertEqual(parts["gradients"]["bytes"], sum(p.grad.numel() * 4 for p in trained))
                self.assertEqual(parts["optimizer"]["bytes"], states)
                kept.append((parts["activations"]["bytes"], theirs))
            self.assertEqual(kept[1][0] - kept[0][0], kept[1][1] - kept[0][1], word)

    @unittest.skipIf(bitsandbytes is None, "no bitsandbytes")
    def test_bitsandbytes(self):
        """States of 8-bit Adam, without its two tables of 256 values, which all weights share; matrices of 4 bits."""
        from bitsandbytes.optim import Adam8bit
        for rows, columns in ((64, 128), (70, 100), (10, 10), (4096, 1)):
            weight = nn.Parameter(torch.randn(rows, columns))
            weight.grad = torch.zeros_like(weight)
            optimizer = Adam8bit([weight])
            optimizer.init_state(optimizer.param_groups[0], weight, 0, 0)
            states = sum(v.numel() * v.element_size() for k, v in optimizer.state[weight].items()
                         if torch.is_tensor(v) and not k.startswith("qmap"))
            ours = self.estimate("net.txt", "input x [batch, %d]\nlinear a %d bias=no\n" % (columns, rows), "--optimizer",
                                 "adam8bit")
            self.assertEqual(ours["components"]["optimizer"]["bytes"], states, (rows, columns))
        for rows, columns in ((64, 128), (512, 384), (1000, 64)):
            for word, twice in (("nf4", False), ("nf4-dq", True), ("fp4", False)):
                codes, state = bitsandbytes.quantize_4bit(torch.randn(rows, columns), blocksize=64, quant_type=word[:3],
                                                          compress_statistics=twice)
                theirs = codes.numel() * codes.element_size() + state.absmax.numel() * state.absmax.element_size()
                theirs += (state.state2.absmax.numel() * 4 + state.offset.numel() * 4) if twice else 0
                self.assertEqual(self.infer("input x [batch, %d]\nlinear a %d bias=no\n" % (columns, rows), "--dtype", word),
                                 theirs, (word, rows, columns))

    def infer(self, text, *args):
        """Bytes of the weights."""
        path = os.path.join(self.dir.name, "net.txt")
        with open(path, "w") as f:
            f.write(text)
        out = subprocess.run([PROGRAM, "estimate", "--json", path] + list(args), stdout=subprocess.PIPE, check=True).stdout
        return json.loads(out)["components"]["parameters"]["bytes"]


if __name__ == "__main__":
    unittest.main()

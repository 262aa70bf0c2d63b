"""test_onnx_folder.py - a folder of Hugging Face becomes an ONNX model: onnx's checker takes the file, and onnxruntime computes what
transformers does, to 1e-4 of the largest answer. Small random models with odd settings: shared key heads, heads that do not fill the
hidden size, stretched positions, windows, caps, biases, packed matrices, experts, tied embeddings. Decoders compute a padded batch in
one go and in steps with their cache. Models whose class this transformers does not have are left out by name."""
import json
import os

from judge_support import SMALL, Judge, main, np, sha

try:
    import onnxruntime_genai
except ImportError:
    onnxruntime_genai = None
try:
    import onnx
    import onnxruntime
    import torch
    import transformers
except ImportError as missing:
    import sys
    print("SKIPPED: %s is not installed" % missing.name)
    sys.exit(77)

BOUND = 1e-4
torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
TEXT = dict(vocab_size=97, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48, max_position_embeddings=64)
KEYS = dict(TEXT, num_key_value_heads=2)
WIDE = dict(KEYS, head_dim=16)
EXPERTS = dict(WIDE, moe_intermediate_size=16, num_experts=4, num_experts_per_tok=2)
NEW = int(transformers.__version__.split(".")[0]) >= 5
# Earlier versions have windows, caches and stretched positions of their own: there these are compared, without a cache.
OLD = ("llama", "gemma", "gpt2", "bert", "roberta", "xlm-roberta", "camembert", "distilbert", "electra", "mpnet", "vit", "resnet")
VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=4)


def scaled(kind, **more):
    """Both spellings: of transformers 5 and of 4."""
    theta = more.pop("rope_theta", 10000.0)
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=theta, **more), rope_scaling=dict(rope_type=kind, **more), rope_theta=theta)


LLAMA3 = scaled("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16, rope_theta=500000.0)
YARN = scaled("yarn", factor=4.0, original_max_position_embeddings=16)
LONG = scaled("longrope", short_factor=[1.1, 1.2, 1.3, 1.4], long_factor=[2.0, 3.0, 4.0, 5.0])
CAUSAL = "AutoModelForCausalLM"
MODELS = {
    "llama": ("llama", CAUSAL, dict(WIDE, tie_word_embeddings=True, attention_bias=True, mlp_bias=True, **LLAMA3)),
    "llama-yarn": ("llama", CAUSAL, dict(TEXT, num_key_value_heads=1, **YARN)),
    "mistral": ("mistral", CAUSAL, dict(KEYS, sliding_window=5)),
    "mixtral": ("mixtral", CAUSAL, dict(KEYS, num_local_experts=4, num_experts_per_tok=2)),
    "qwen2": ("qwen2", CAUSAL, dict(KEYS, use_sliding_window=True, sliding_window=5, max_window_layers=1, tie_word_embeddings=True)),
    "qwen3": ("qwen3", CAUSAL, WIDE),
    "qwen2_moe": ("qwen2_moe", CAUSAL, dict(EXPERTS, shared_expert_intermediate_size=24, head_dim=8)),
    "qwen3_moe": ("qwen3_moe", CAUSAL, dict(EXPERTS, norm_topk_prob=True)),
    "gemma": ("gemma", CAUSAL, dict(WIDE, num_key_value_heads=1)),
    "gemma2": ("gemma2", CAUSAL, dict(WIDE, sliding_window=5, query_pre_attn_scalar=20, attn_logit_softcapping=5.0,
                                      final_logit_softcapping=3.0)),
    "gemma3": ("gemma3_text", CAUSAL, dict(WIDE, sliding_window=5, query_pre_attn_scalar=20)),
    "phi3": ("phi3", CAUSAL, dict(KEYS, pad_token_id=0, original_max_position_embeddings=8, **LONG)),
    "olmo": ("olmo", CAUSAL, dict(KEYS, clip_qkv=0.5)),
    "olmo2": ("olmo2", CAUSAL, KEYS),
    "granite": ("granite", CAUSAL, dict(KEYS, embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.5, logits_scaling=4.0)),
    "smollm3": ("smollm3", CAUSAL, dict(KEYS, no_rope_layers=[1, 0, 1], use_sliding_window=True, sliding_window=5, pad_token_id=0)),
    "stablelm": ("stablelm", CAUSAL, dict(KEYS, use_qkv_bias=True, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "nemotron": ("nemotron", CAUSAL, dict(WIDE, mlp_bias=True)),
    "cohere2": ("cohere2", CAUSAL, dict(KEYS, sliding_window=5, pad_token_id=0, layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    "phi": ("phi", CAUSAL, KEYS),
    "gpt2": ("gpt2", CAUSAL, dict(vocab_size=97, n_embd=32, n_layer=3, n_head=4, n_positions=64, n_inner=40)),
    "qwen3-base": ("qwen3", "AutoModel", WIDE),
    "llama-classes": ("llama", "AutoModelForSequenceClassification", dict(KEYS, num_labels=3, pad_token_id=0)),
    "bert": ("bert", "AutoModel", TEXT),
    "bert-classes": ("bert", "AutoModelForSequenceClassification", dict(TEXT, num_labels=3)),
    "bert-words": ("bert", "AutoModelForMaskedLM", TEXT),
    "roberta": ("roberta", "AutoModel", TEXT),
    "roberta-words": ("roberta", "AutoModelForMaskedLM", dict(TEXT, tie_word_embeddings=False)),
    "roberta-tokens": ("roberta", "AutoModelForTokenClassification", dict(TEXT, num_labels=5)),
    "xlm-roberta": ("xlm-roberta", "AutoModelForSequenceClassification", TEXT),
    "camembert": ("camembert", "AutoModelForMaskedLM", TEXT),
    "distilbert": ("distilbert", "AutoModelForQuestionAnswering",
                   dict(vocab_size=97, dim=32, n_layers=3, n_heads=4, hidden_dim=48, max_position_embeddings=64)),
    "electra": ("electra", "AutoModelForMaskedLM", dict(TEXT, embedding_size=16)),
    "mpnet": ("mpnet", "AutoModel", TEXT),
    "t5-encoder": ("t5", "T5EncoderModel", dict(vocab_size=97, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)),
    "vit": ("vit", "AutoModelForImageClassification", dict(VIT, num_labels=7)),
    "vit-base": ("vit", "AutoModel", VIT),
    "resnet": ("resnet", "AutoModelForImageClassification",
               dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic", num_labels=7)),
}


def make(name, folder, dtype=torch.float32):
    """A model with weights, norms and biases at random, in the folder; and it, in f32 with the weights that the folder has."""
    kind, auto, settings = MODELS[name]
    torch.manual_seed(sum(map(ord, name)))
    config = transformers.AutoConfig.for_model(kind, **settings)
    config._attn_implementation = "eager"
    cls = getattr(transformers, auto)
    model = cls.from_config(config) if auto.startswith("Auto") else cls(config)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p + 0.2 * torch.randn_like(p) if p.ndim == 1 else 0.15 * torch.randn_like(p))
        for key, b in model.named_buffers():
            if key.endswith("running_var"):
                b.copy_(torch.rand_like(b) + 0.5)
    model.config.bos_token_id, model.config.eos_token_id = 1, 2
    model.to(dtype).save_pretrained(folder)
    if dtype != torch.float32:
        model = type(model).from_pretrained(folder, torch_dtype=torch.float32, attn_implementation="eager")
    return model.eval()


class OnnxFolder(Judge):
    def session(self, path):
        onnx.checker.check_model(path)
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 3, 1
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def near(self, name, got, wanted):
        wanted = wanted.detach().numpy()
        self.assertEqual(got.shape, wanted.shape, name)
        self.assertLess(np.abs(got - wanted).max(), BOUND * max(1, np.abs(wanted).max()), name)

    def decode(self, name, model, session, steps):
        """Two texts, of which one begins with padding, in those steps. transformers takes the same ones, with its own cache: stretched
        positions depend on the length so far."""
        ids = torch.randint(5, 97, (2, 11), generator=torch.Generator().manual_seed(3))
        mask = torch.ones(2, 11, dtype=torch.long)
        mask[1, :3] = 0
        places = (mask.cumsum(-1) - 1).clamp(min=0)
        kept = transformers.DynamicCache(config=model.config) if NEW else None
        feeds = {i.name: np.zeros((2, i.shape[1], 0, i.shape[3]), "f4") for i in session.get_inputs() if i.name.startswith("past")}
        for begin, end in zip([0, *steps], [*steps, 11]):
            now = dict(input_ids=ids[:, begin:end], attention_mask=mask[:, :end], position_ids=places[:, begin:end])
            feeds.update({k: v.numpy() for k, v in now.items()})
            outputs = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
            with torch.no_grad():
                if NEW:
                    wanted = model(**now, past_key_values=kept, use_cache=True).logits
                else:
                    wanted = model(input_ids=ids, attention_mask=mask, position_ids=places, use_cache=False).logits[:, begin:end]
            real = mask[:, begin:end].bool()
            self.near(name, outputs["logits"][real.numpy()], wanted[real])
            feeds = {k.replace("present", "past_key_values"): v for k, v in outputs.items() if k.startswith("present")}

    def answer(self, name, model, session):
        """Of models without a cache: every output, where tokens are no padding."""
        names = [i.name for i in session.get_inputs()]
        noise = torch.Generator().manual_seed(4)
        if names == ["pixel_values"]:
            size = 16 if "vit" in name else 32
            given = {"pixel_values": torch.randn(2, 3, size, size, generator=noise)}
            real = None
        else:
            mask = torch.ones(2, 11, dtype=torch.long)
            mask[1, 8:] = 0
            real = mask.bool()
            given = {"input_ids": torch.randint(5, 97, (2, 11), generator=noise), "attention_mask": mask}
            if "token_type_ids" in names:
                given["token_type_ids"] = torch.randint(0, model.config.type_vocab_size, (2, 11), generator=noise)
        self.assertEqual(set(names), set(given), name)
        with torch.no_grad():
            wanted = model(**given)
        for output, got in zip([o.name for o in session.get_outputs()], session.run(None, {k: v.numpy() for k, v in given.items()})):
            t = getattr(wanted, output)
            if real is not None and t.ndim > 1 and t.shape[1] == 11:
                got, t = got[real.numpy()], t[real]
            self.near("%s: %s" % (name, output), got, t)

    def judge(self, name, path, model):
        session = self.session(path)
        if any(i.name.startswith("past_key_values") for i in session.get_inputs()):
            self.decode(name, model, session, [])
            self.decode(name, model, session, [6, 7])
        else:
            self.answer(name, model, session)

    def test_families(self):
        for name in MODELS:
            folder = self.path(name)
            if not NEW and (name.split("-")[0] not in OLD and name not in OLD or "yarn" in name):
                print("left out: %s, which transformers %s computes in another way" % (name, transformers.__version__))
                continue
            try:
                model = make(name, folder)
            except (AttributeError, KeyError, TypeError, ValueError) as e:
                print("left out: %s, which transformers %s does not make (%s)" % (name, transformers.__version__, e))
                continue
            with self.subTest(name):
                self.vc("convert", "-q", folder, "-o", folder + ".onnx")
                self.judge(name, folder + ".onnx", model)

    def test_halves(self):
        """Weights stay f16 and bf16, and are computed with in f32; the embedding that is the head, too, is there once."""
        for dtype, kind in ((torch.bfloat16, onnx.TensorProto.BFLOAT16), (torch.float16, onnx.TensorProto.FLOAT16)):
            for name in ("llama", "phi3", "bert") if NEW else ("llama", "bert"):
                folder = self.path("%s-%d" % (name, kind))
                model = make(name, folder, dtype)
                self.vc("convert", "-q", folder, "-o", folder + ".onnx")
                m = onnx.load(folder + ".onnx", load_external_data=False)
                weights = [i for i in m.graph.initializer if i.data_location == onnx.TensorProto.EXTERNAL]
                self.assertEqual({i.data_type for i in weights}, {kind}, name)
                names = [i.name for i in weights]
                self.assertEqual([n for n in names if "lm_head" in n] != [], name == "phi3", names)
                self.judge(folder, folder + ".onnx", model)

    def test_names(self):
        """Inputs, outputs and open sizes are those of exporters."""
        make("llama", self.path("d"))
        os.makedirs(self.path("o/onnx"))
        self.vc("convert", "-q", self.path("d"), "-o", self.path("o/onnx/model.onnx"))
        self.vc("quantize", "-q", "--int8", self.path("o"), "-o", self.path("o/onnx/model_quantized.onnx"))
        for command in ("inspect", "estimate", "sensitivity", "verify --data"):
            self.vc(*command.split(), self.path("o"))  # the folder, as optimum's
        self.assertIn("model.onnx is read, one of 2 models", self.vc("inspect", self.path("o")).out.decode())
        self.vc("convert", "-q", self.path("d"), "-o", self.path("d.onnx"))
        m = onnx.load(self.path("d.onnx"), load_external_data=False)
        sizes = {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in [*m.graph.input, *m.graph.output]}
        self.assertEqual(list(sizes)[:4], ["input_ids", "attention_mask", "position_ids", "past_key_values.0.key"])
        self.assertEqual(sizes["attention_mask"], ["batch_size", "past_sequence_length + sequence_length"])
        self.assertEqual(sizes["past_key_values.2.value"], ["batch_size", 2, "past_sequence_length", 16])
        self.assertEqual(sizes["present.2.value"], ["batch_size", 2, "past_sequence_length + sequence_length", 16])
        self.assertEqual([o.name for o in m.graph.output][:2], ["logits", "present.0.key"])
        self.assertEqual(sizes["logits"], ["batch_size", "sequence_length", 97])
        self.assertEqual([(o.domain, o.version >= 17) for o in m.opset_import], [("", True)])

    def one_text(self, path):
        session = self.session(path)
        ids = np.arange(5, 15)[None]
        feeds = {i.name: np.zeros((1, 2, 0, 16), "f4") for i in session.get_inputs() if i.name.startswith("past")}
        feeds.update(input_ids=ids, attention_mask=np.ones_like(ids), position_ids=np.arange(10)[None])
        return session.run(["logits"], feeds)[0]

    def test_one_run(self):
        """Quantized in the same run: the bytes of two runs, and answers that are those of the decoded weights; a folder of codes is decoded."""
        make("llama", self.path("d"))
        self.vc("convert", "-q", self.path("d"), "-o", self.path("plain.onnx"))
        # int4: in rows of the folder, matrices with and without a rest behind the last group; what stays a float is turned by a node
        for words in (("--int8",), ("--int4", "--granularity", "group:16"), ("--int4", "--granularity", "group:32", "--asymmetric"),
                      ("--fp16",), ("--int4", "--granularity", "group:16", "--exclude", "*o_proj*")):
            os.makedirs(self.path("one"), exist_ok=True)
            os.makedirs(self.path("two"), exist_ok=True)
            self.vc("quantize", "-qf", *words, *SMALL, self.path("d"), "-o", self.path("one/m.onnx"))
            self.vc("quantize", "-qf", *words, *SMALL, self.path("plain.onnx"), "-o", self.path("two/m.onnx"))
            for name in ("m.onnx", "m.onnx.data"):
                if "--exclude" not in words:
                    self.assertEqual(sha(self.path("one/" + name)), sha(self.path("two/" + name)), words)
            self.vc("dequantize", "-qf", self.path("one/m.onnx"), "-o", self.path("back.onnx"))
            got, decoded = (self.one_text(self.path(n)) for n in ("one/m.onnx", "back.onnx"))
            # runtimes may round what codes of int8 are multiplied with: by 1 % here
            self.assertLess(np.linalg.norm(got - decoded) / np.linalg.norm(decoded), 1e-5 if "--int4" in words else 0.02, words)
        self.vc("quantize", "-q", "--int8", *SMALL, self.path("d"), "-o", self.path("codes/"))
        self.vc("convert", "-q", self.path("codes"), "-o", self.path("codes.onnx"))
        self.vc("dequantize", "-q", self.path("codes"), "-o", self.path("floats/"))
        self.vc("convert", "-q", self.path("floats"), "-o", self.path("floats.onnx"))
        self.assertEqual(sha(self.path("codes.onnx.data")), sha(self.path("floats.onnx.data")))

    def test_folder(self):
        """A folder as the output: the file, what goes along, and what onnxruntime-genai needs to write the text that transformers does."""
        for name in ("llama", "qwen3", "gemma3", "gpt2", "bert") if NEW else ("llama", "gpt2", "bert"):
            source, made = self.path(name), self.path(name + "-onnx")
            model = make(name, source)
            for text in ("generation_config.json",):  # ends that its 97 tokens do not have
                if os.path.exists(os.path.join(source, text)):
                    with open(os.path.join(source, text), "w") as f:
                        json.dump({"bos_token_id": 1, "eos_token_id": [2], "pad_token_id": 0}, f)
            with open(os.path.join(source, "tokenizer.json"), "w") as f:
                f.write("{}")
            self.vc("convert", "-q", "--format", "onnx", source, "-o", made + "/")
            files = set(os.listdir(made))
            self.assertLessEqual({"model.onnx", "model.onnx.data", "config.json", "tokenizer.json"}, files)
            self.assertEqual("genai_config.json" in files, name != "bert")
            self.judge(name, os.path.join(made, "model.onnx"), model)
            if name == "bert" or onnxruntime_genai is None:
                continue
            with open(os.path.join(made, "genai_config.json")) as f:
                self.assertEqual(json.load(f)["model"]["eos_token_id"], [2])
            loaded = onnxruntime_genai.Model(made)
            settings = onnxruntime_genai.GeneratorParams(loaded)
            settings.set_search_options(max_length=24, do_sample=False)
            generator = onnxruntime_genai.Generator(loaded, settings)
            generator.append_tokens(np.array([[5, 9, 33, 21]], dtype=np.int32))
            while not generator.is_done():
                generator.generate_next_token()
            got = [int(t) for t in generator.get_sequence(0)]
            wanted = model.generate(torch.tensor([[5, 9, 33, 21]]), max_length=24, do_sample=False, eos_token_id=2, pad_token_id=0)[0].tolist()
            self.assertEqual([t for t in got if t != 2], [t for t in wanted if t != 2], name)
        if onnxruntime_genai is None:
            print("left out: onnxruntime-genai is not installed")

    def test_refused(self):
        """What has no graph is refused by name, and nothing is written."""
        make("llama", self.path("d"))
        with open(self.path("d/config.json")) as f:
            config = json.load(f)

        def refused(what, **changes):
            with open(self.path("d/config.json"), "w") as f:
                json.dump({**config, **changes}, f)
            self.assertIn(what, self.refuse(3, "convert", self.path("d"), "-o", self.path("x.onnx")))
            self.assertEqual([n for n in os.listdir(self.dir) if n.startswith("x.onnx")], [])

        refused("model_type is 'mamba'", model_type="mamba")
        refused("LlamaForSomething", architectures=["LlamaForSomething"])
        refused("model.layers.0.mlp.gate_proj.weight: the shape is [48, 32], expected [50, 32]", intermediate_size=50)
        refused("hidden_act is", hidden_act="snake")
        refused("missing", num_hidden_layers=4)
        with open(self.path("d/config.json"), "w") as f:
            json.dump({"model_type": "t5", "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 97}, f)
        self.assertIn("an encoder and a decoder", self.refuse(3, "convert", self.path("d"), "-o", self.path("x.onnx")))
        self.assertIn("in runs of their own", self.refuse(2, "quantize", "--int8", self.path("d"), "--emit",
                                                          self.path("x.onnx") + "," + self.path("y.safetensors")))


if __name__ == "__main__":
    main()

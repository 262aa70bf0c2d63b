"""test_graph_counts.py - parameters and multiply-adds of well-known models, from their config.json alone.

The judges are transformers, which builds each model without memory ("meta"), and torch.utils.flop_counter, which counts
what it computes; of MobileNetV2 torchvision's model as torch exports it. What tests/graph/test_net.c states is what
they say.
"""
import json
import os
import unittest
import warnings

import judge_support as js

warnings.filterwarnings("ignore")
from transformers_5 import torch, transformers  # without them the test ends here
from torch.utils.flop_counter import FlopCounterMode

SEQUENCE = 128
ENCODER = dict(vocab_size=30522, max_position_embeddings=512, type_vocab_size=2)
MISTRAL = dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
               intermediate_size=14336, vocab_size=32000, max_position_embeddings=32768)
# class, configuration, parameters as published, and those that a token uses where that is another number
KNOWN = {
    "BERT-base": ("BertModel", dict(ENCODER, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
                                    intermediate_size=3072), "109 M", None),
    "BERT-large": ("BertModel", dict(ENCODER, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                                     intermediate_size=4096), "335 M", None),
    "GPT-2": ("GPT2LMHeadModel", dict(n_embd=768, n_layer=12, n_head=12, vocab_size=50257, n_positions=1024), "124 M", None),
    "Llama-2-7B": ("LlamaForCausalLM", dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32,
                                            intermediate_size=11008, vocab_size=32000), "6.74 G", None),
    "Mistral-7B": ("MistralForCausalLM", dict(MISTRAL, sliding_window=4096), "7.24 G", None),
    "Mixtral-8x7B": ("MixtralForCausalLM", dict(MISTRAL, num_local_experts=8, num_experts_per_tok=2), "46.7 G", "12.9 G"),
    "Qwen2.5-7B": ("Qwen2ForCausalLM", dict(hidden_size=3584, num_hidden_layers=28, num_attention_heads=28,
                                            num_key_value_heads=4, intermediate_size=18944, vocab_size=152064), "7.62 G", None),
    "ViT-B/16": ("ViTForImageClassification", dict(num_labels=1000), "86.6 M", None),
    "ResNet-50": ("ResNetForImageClassification", dict(num_labels=1000), "25.6 M", None),
    "ELECTRA-small": ("ElectraModel", dict(ENCODER, embedding_size=128, hidden_size=256, num_hidden_layers=12,
                                           num_attention_heads=4, intermediate_size=1024), "13.5 M", None),
    "MPNet-base": ("MPNetModel", dict(vocab_size=30527, max_position_embeddings=514), "109 M", None),
    "T5-small": ("T5ForConditionalGeneration", dict(), "60.5 M", None),
    "Whisper-tiny": ("WhisperForConditionalGeneration", dict(), "37.8 M", None),
    "Gemma-2B": ("GemmaForCausalLM", dict(hidden_size=2048, num_hidden_layers=18, num_attention_heads=8, num_key_value_heads=1,
                                          intermediate_size=16384, vocab_size=256000), "2.51 G", None),
    "Gemma-2-2B": ("Gemma2ForCausalLM", dict(vocab_size=256000), "2.61 G", None),
    "Gemma-3-1B": ("Gemma3ForCausalLM", dict(hidden_size=1152, num_attention_heads=4, num_key_value_heads=1,
                                             intermediate_size=6912, vocab_size=262144), "1000 M", None),
    "OLMo-1B": ("OlmoForCausalLM", dict(hidden_size=2048, num_hidden_layers=16, num_attention_heads=16, intermediate_size=8192,
                                        vocab_size=50304, tie_word_embeddings=True), "1.18 G", None),
    "OLMo-2-7B": ("Olmo2ForCausalLM", dict(vocab_size=100352), "7.30 G", None),
    "Qwen1.5-MoE-A2.7B": ("Qwen2MoeForCausalLM", dict(), "14.3 G", "2.7 G"),
    "Qwen3-30B-A3B": ("Qwen3MoeForCausalLM", dict(num_hidden_layers=48, head_dim=128), "30.5 G", "3.4 G"),
}


def rounded(n, like):
    """n in the form of a published figure."""
    number, unit = like.split()
    digits = len(number.split(".")[1]) if "." in number else 0
    return "%.*f %s" % (digits, n / {"M": 1e6, "G": 1e9}[unit], unit)


class Counts(js.Judge):
    def counted(self, path, *more):
        done = js.run("graph", "--json=-", *more, path)
        self.assertEqual(done.code, 0, done.err)
        return done.json()["totals"]

    def test_known(self):
        for name, (class_name, values, published, active) in KNOWN.items():
            with self.subTest(name):
                class_ = getattr(transformers, class_name)
                config = class_.config_class(**values)
                config._attn_implementation = "eager"
                config._experts_implementation = "batched_mm"
                with torch.device("meta"):
                    model = class_(config).eval()
                folder = self.path(name.replace("/", "-"))
                os.mkdir(folder)
                config.architectures = [class_name]
                config.save_pretrained(folder)
                if hasattr(config, "image_size") or class_name.startswith("ResNet"):
                    size = ["--size", "batch=1"]
                    size += ["--size", "height=224", "--size", "width=224"] if class_name.startswith("ResNet") else []
                    given = dict(pixel_values=torch.zeros((1, 3, 224, 224), device="meta"))
                else:
                    ids = torch.zeros((1, SEQUENCE), dtype=torch.int64, device="meta")
                    size, given = ["--size", "sequence=%d" % SEQUENCE], dict(input_ids=ids)
                    if class_name.startswith("Whisper"):
                        size, given = [], dict(input_features=torch.zeros((1, 80, 3000), device="meta"))
                    if class_name.endswith("ForConditionalGeneration"):
                        size += ["--size", "decoder_sequence=%d" % SEQUENCE]
                        given["decoder_input_ids"] = ids
                with FlopCounterMode(display=False) as counter, torch.no_grad():
                    model(**given)
                totals = self.counted(os.path.join(folder, "config.json"), *size)
                print("%-18s %14d parameters, %14d of them used, %16d multiply-adds" %
                      (name, totals["parameters"], totals["active_parameters"], totals["macs_value"]))
                self.assertEqual(totals["parameters"], sum(p.numel() for p in model.parameters()))
                self.assertEqual(rounded(totals["parameters"], published), published)
                if active:
                    self.assertEqual(rounded(totals["active_parameters"], active), active)
                else:
                    self.assertEqual(totals["active_parameters"], totals["parameters"])
                self.assertEqual(2 * totals["macs_value"], counter.get_total_flops())

    def test_mobilenet(self):
        try:
            import torchvision
            import onnx  # noqa: F401, which the exporter needs
        except ImportError as missing:
            self.skipTest(str(missing))
        model = torchvision.models.mobilenet_v2().eval()
        image = torch.zeros(1, 3, 224, 224)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(image)
        published = torchvision.models.MobileNet_V2_Weights.IMAGENET1K_V1.meta
        path = self.path("mobilenet.onnx")
        torch.onnx.export(model, (image,), path, dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False)  # batch norms stay
        totals = self.counted(path)
        print("%-18s %14d parameters, %16d multiply-adds" % ("MobileNetV2", totals["parameters"], totals["macs_value"]))
        self.assertEqual(totals["parameters"], published["num_params"])
        self.assertEqual(2 * totals["macs_value"], counter.get_total_flops())
        self.assertEqual(round(totals["macs_value"] / 1e9, 3), published["_ops"])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""make.py - small models as torch.onnx.export(dynamo=True) writes them, for tests/judge/test_graph_onnx.py: that exporter
needs onnxscript, which is not where the tests run. Weights are random and few.

    NAME.onnx    the model
    NAME.npz     its inputs

    python3 make.py      with torch 2.15, transformers 5 and onnxscript 0.7
"""
import os

import numpy as np
import onnx
import torch
from torch import nn
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))


def net():
    layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(2),
                           nn.Conv2d(8, 8, 3, groups=8, stride=2), nn.BatchNorm2d(8), nn.SiLU(), nn.Conv2d(8, 12, 1),
                           nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(12, 5))
    for m in layers:
        if isinstance(m, nn.BatchNorm2d):
            nn.init.normal_(m.running_mean)
            nn.init.uniform_(m.running_var, 0.5, 2)
    return layers


class Block(nn.Module):
    """What networks for pictures have besides convolutions: larger pictures, parts, sums of products."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.mix = nn.Parameter(torch.randn(4, 6))

    def forward(self, x):
        a, b = nn.functional.gelu(self.norm(self.down(x))).chunk(2, dim=1)
        y = self.up(torch.cat([a * torch.sigmoid(b), b], dim=1))
        y = nn.functional.interpolate(y, scale_factor=2, mode="nearest")
        return torch.einsum("bchw,cd->bdhw", nn.functional.pad(y, (1, 2, 0, 1)), self.mix)


class Hidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = BertModel(BertConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=24,
                                          vocab_size=40, max_position_embeddings=16), add_pooling_layer=False)

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class Logits(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = LlamaForCausalLM(LlamaConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=1,
                                                  num_attention_heads=4, num_key_value_heads=2, vocab_size=40,
                                                  max_position_embeddings=64, use_cache=False))

    def forward(self, input_ids):
        return self.model(input_ids=input_ids).logits


def strip(path):
    """Without the stack traces that the exporter keeps at each node, which have the paths of the machine."""
    model = onnx.load(path)
    graph = model.graph
    for part in [model, graph] + list(graph.node) + list(graph.value_info) + list(graph.input) + list(graph.output) + \
            list(graph.initializer):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    onnx.save(model, path)


def main():
    torch.manual_seed(0)
    dynamic = torch.export.Dim.DYNAMIC
    ids, mask = torch.randint(0, 40, (2, 7)), torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    for name, make, args, names, axes in (
            ("convolutional", net, (torch.randn(2, 3, 17, 21),), ["x"], ({0: dynamic},)),
            ("pictures", Block, (torch.randn(2, 4, 10, 12),), ["x"], ({0: dynamic},)),
            ("encoder", Hidden, (ids, mask), ["input_ids", "attention_mask"], ({0: dynamic, 1: dynamic},) * 2),
            ("decoder", Logits, (ids,), ["input_ids"], ({0: dynamic, 1: dynamic},))):
        path = os.path.join(HERE, name + ".onnx")
        torch.onnx.export(make().eval(), args, path, dynamo=True, verbose=False, external_data=False, input_names=names,
                          dynamic_shapes=axes)
        strip(path)
        np.savez_compressed(os.path.join(HERE, name + ".npz"), **{n: a.numpy() for n, a in zip(names, args)})
        print(name, os.path.getsize(path))


if __name__ == "__main__":
    main()

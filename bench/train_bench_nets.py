"""train_bench_nets.py - the networks of train_bench.py as files: random weights, rows, and what each computes.

cnn      convolutions of 16 and 32 filters of 3 x 3, each with Relu and a pool of 2 x 2, then 128 and 10 units
encoder  BERT: 2 layers, 256 wide, 4 heads, 1024 between, 5 classes; 16 sequences of 64 tokens out of 2000
decoder  Llama: 2 layers, 256 wide, 8 heads in 4 groups, 688 between; the same sequences
lstm     an LSTM of 128 units over 32 rows of 100 steps of 128 numbers, and 10 classes of its last state; gru: the same of a GRU
"""
import json
import os

import numpy as np

BATCH = {"cnn": 64, "encoder": 16, "decoder": 16, "lstm": 32, "gru": 32}
STEPS, UNITS = 100, 128  # of recurrent layers
GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}  # where PyTorch has the gates that ONNX has in order
OPTIONS = {"cnn": ["--graph", "net.txt", "--teacher", "teacher.npz", "--student", "student.npz", "-o", "out.npz"],
           "encoder": ["--teacher", "teacher", "--student", "student", "-o", "out"]}
OPTIONS["decoder"] = OPTIONS["encoder"]
OPTIONS["lstm"] = OPTIONS["gru"] = ["--graph", "net.onnxtxt"] + OPTIONS["cnn"][2:]
RECURRENT = """<ir_version: 10, opset_import: ["" : 21], metadata_props: [%s]>
g (float[n, 100, 128] x, float[1, %d, 128] w, float[1, %d, 128] r, float[1, %d] b, float[128, 10] o) => (float[n, 10] y) <int64[1] one = {1}> {
  a, last = %s <hidden_size = 128, layout = 1%s> (x, w, r, b)
  h = Squeeze (last, one)
  y = MatMul (h, o)
}
"""
GRAPH = """input x [batch, 1, %d, %d]
conv conv1 16 kernel=3 pad=1
relu
maxpool kernel=2
conv conv2 32 kernel=3 pad=1
relu
maxpool kernel=2
flatten
linear fc1 128
relu
linear fc2 10
"""
WORDS, WIDE, LENGTH, LAYERS, CLASSES, ROWS, SIDE = 2000, 256, 64, 2, 5, 320, 28
BERT = dict(model_type="bert", architectures=["BertForSequenceClassification"], vocab_size=WORDS, hidden_size=WIDE,
            num_hidden_layers=LAYERS, num_attention_heads=4, intermediate_size=1024, max_position_embeddings=LENGTH,
            type_vocab_size=2, hidden_act="gelu", layer_norm_eps=1e-12, num_labels=CLASSES, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, pad_token_id=0, id2label={str(k): str(k) for k in range(CLASSES)})
LLAMA = dict(model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=WORDS, hidden_size=WIDE,
             num_hidden_layers=LAYERS, num_attention_heads=8, num_key_value_heads=4, intermediate_size=688,
             max_position_embeddings=LENGTH, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=10000.0, tie_word_embeddings=False)


def linear(shapes, name, rows, columns, bias=True):
    shapes[name + ".weight"] = (rows, columns)
    if bias:
        shapes[name + ".bias"] = (rows,)


def cnn_shapes():
    shapes = {"conv1.weight": (16, 1, 3, 3), "conv1.bias": (16,), "conv2.weight": (32, 16, 3, 3), "conv2.bias": (32,)}
    linear(shapes, "fc1", 128, 32 * (SIDE // 4) ** 2)
    linear(shapes, "fc2", 10, 128)
    return shapes


def encoder_shapes():
    shapes, e = {}, "bert.embeddings."
    for name, rows in (("word", WORDS), ("position", LENGTH), ("token_type", 2)):
        shapes[e + name + "_embeddings.weight"] = (rows, WIDE)
    shapes[e + "LayerNorm.weight"] = shapes[e + "LayerNorm.bias"] = (WIDE,)
    for k in range(LAYERS):
        at = "bert.encoder.layer.%d." % k
        for name in ("query", "key", "value"):
            linear(shapes, at + "attention.self." + name, WIDE, WIDE)
        linear(shapes, at + "attention.output.dense", WIDE, WIDE)
        linear(shapes, at + "intermediate.dense", 1024, WIDE)
        linear(shapes, at + "output.dense", WIDE, 1024)
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[at + name + ".weight"] = shapes[at + name + ".bias"] = (WIDE,)
    linear(shapes, "bert.pooler.dense", WIDE, WIDE)
    linear(shapes, "classifier", CLASSES, WIDE)
    return shapes


def decoder_shapes():
    shapes = {"model.embed_tokens.weight": (WORDS, WIDE)}
    for k in range(LAYERS):
        at = "model.layers.%d." % k
        for name, rows in (("q", WIDE), ("k", WIDE // 2), ("v", WIDE // 2), ("o", WIDE)):
            linear(shapes, at + "self_attn.%s_proj" % name, rows, WIDE, bias=False)
        for name, rows, columns in (("gate", 688, WIDE), ("up", 688, WIDE), ("down", WIDE, 688)):
            linear(shapes, at + "mlp.%s_proj" % name, rows, columns, bias=False)
        shapes[at + "input_layernorm.weight"] = shapes[at + "post_attention_layernorm.weight"] = (WIDE,)
    shapes["model.norm.weight"] = (WIDE,)
    linear(shapes, "lm_head", WORDS, WIDE, bias=False)
    return shapes


def recurrent_shapes(net):
    rows = len(GATES[net]) * UNITS
    return {"w": (1, rows, UNITS), "r": (1, rows, UNITS), "b": (1, 2 * rows), "o": (UNITS, 10)}


def recurrent_graph(net):
    rows = len(GATES[net]) * UNITS
    names = ", ".join('"vcompress.parameter:%s" : "%s"' % (n, n) for n in recurrent_shapes(net))
    return RECURRENT % (names, rows, rows, 2 * rows, net.upper(), ", linear_before_reset = 1" if net == "gru" else "")


def weights(random, shapes):
    """Norms are near 1, tables near 0 by 0.5, matrices by the root of what they sum over, biases small."""
    tensors = {}
    for name, shape in shapes.items():
        x = random.standard_normal(shape)
        if len(shape) == 1:
            x = 0.02 * x + ("norm" in name.lower() and name.endswith("weight"))
        else:
            x *= 0.5 if "embed" in name else 0.02 if name == "b" else (UNITS if name in "wr" else np.prod(shape[1:])) ** -0.5
        tensors[name] = x.astype("f4")
    return tensors


def write_folder(folder, config, tensors):
    """As Hugging Face has it: config.json and model.safetensors."""
    header, at = {}, 0
    for name, x in tensors.items():
        header[name] = dict(dtype="F32", shape=list(x.shape), data_offsets=[at, at + x.nbytes])
        at += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.mkdir(folder)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for x in tensors.values():
            f.write(x.tobytes())


def make(net, folder):
    """teacher.npz, student.npz and data.npz, which PyTorch reads, too; of transformers also folders."""
    random = np.random.default_rng(1)
    shapes = recurrent_shapes(net) if net in GATES else {"cnn": cnn_shapes, "encoder": encoder_shapes, "decoder": decoder_shapes}[net]()
    for name in ("teacher", "student"):
        tensors = weights(random, shapes)
        np.savez(os.path.join(folder, name + ".npz"), **tensors)
        if net in ("encoder", "decoder"):
            write_folder(os.path.join(folder, name), BERT if net == "encoder" else LLAMA, tensors)
    if net == "cnn":
        np.savez(os.path.join(folder, "data.npz"), x=random.standard_normal((20 * ROWS, 1, SIDE, SIDE)).astype("f4"))
        with open(os.path.join(folder, "net.txt"), "w") as f:
            f.write(GRAPH % (SIDE, SIDE))
        return
    if net in GATES:
        np.savez(os.path.join(folder, "data.npz"), x=random.standard_normal((640, STEPS, UNITS)).astype("f4"))
        with open(os.path.join(folder, "net.onnxtxt"), "w") as f:
            f.write(recurrent_graph(net))
        return
    data = dict(input_ids=random.integers(1, WORDS, (ROWS, LENGTH)), attention_mask=np.ones((ROWS, LENGTH), "i8"))
    if net == "encoder":
        data["token_type_ids"] = np.zeros((ROWS, LENGTH), "i8")
    np.savez(os.path.join(folder, "data.npz"), **data)

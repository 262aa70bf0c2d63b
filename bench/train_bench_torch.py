"""train_bench_torch.py FOLDER NET THREADS STEPS [cuda [MODE,...]] - PyTorch's side of train_bench.py: prints the CPU seconds
and the wall seconds of a step, and the loss of the first one, a line for each mode.

MODE: eager (the default), compile (torch.compile of forward passes and loss, mode="reduce-overhead"), graph (the whole step,
update and all, captured by hand as a CUDA graph).

Attention is PyTorch's own where it has it (2.0 and later), else products and a softmax. No row is padded, and nothing is
masked but what a decoder must not see, so no mask is given.
"""
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import train_bench_nets as nets

T = 4.0
DEVICE = sys.argv[5] if len(sys.argv) > 5 else "cpu"
MODES = sys.argv[6].split(",") if len(sys.argv) > 6 else ["eager"]
if DEVICE != "cpu":
    torch.set_default_device(DEVICE)


def attend(q, k, v, causal):
    """q, k, v: [batch, heads, length, size]"""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        s = s + CAUSAL
    return F.softmax(s, -1) @ v


CAUSAL = torch.full((nets.LENGTH, nets.LENGTH), float("-inf")).triu(1)


def heads(x, n):
    return x.view(x.shape[0], x.shape[1], n, -1).transpose(1, 2)


def together(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def linear(w, name, x):
    return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))


def layer_norm(w, name, x):
    return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], 1e-12)


def cnn(w, x):
    for name in ("conv1", "conv2"):
        x = F.max_pool2d(F.relu(F.conv2d(x, w[name + ".weight"], w[name + ".bias"], padding=1), inplace=True), 2)
    return linear(w, "fc2", F.relu(linear(w, "fc1", x.flatten(1)), inplace=True))


def encoder(w, ids):
    e = "bert.embeddings."
    x = F.embedding(ids, w[e + "word_embeddings.weight"]) + w[e + "position_embeddings.weight"]
    x = layer_norm(w, e + "LayerNorm", x + F.embedding(torch.zeros_like(ids), w[e + "token_type_embeddings.weight"]))
    for k in range(nets.LAYERS):
        at = "bert.encoder.layer.%d." % k
        q, k, v = (heads(linear(w, at + "attention.self." + n, x), 4) for n in ("query", "key", "value"))
        x = layer_norm(w, at + "attention.output.LayerNorm",
                       x + linear(w, at + "attention.output.dense", together(attend(q, k, v, False))))
        x = layer_norm(w, at + "output.LayerNorm",
                       x + linear(w, at + "output.dense", F.gelu(linear(w, at + "intermediate.dense", x))))
    return linear(w, "classifier", torch.tanh(linear(w, "bert.pooler.dense", x[:, 0])))


def rms_norm(x, scale):
    if hasattr(F, "rms_norm"):
        return F.rms_norm(x, x.shape[-1:], scale, 1e-6)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * scale


SIZE = nets.WIDE // 8
ANGLES = torch.outer(torch.arange(nets.LENGTH).float(), 10000.0 ** (-torch.arange(0, SIZE, 2).float() / SIZE))
COSINES, SINES = torch.cat((ANGLES, ANGLES), 1).cos(), torch.cat((ANGLES, ANGLES), 1).sin()


def rotary(x):
    a, b = x.chunk(2, -1)
    return x * COSINES + torch.cat((-b, a), -1) * SINES


def decoder(w, ids):
    x = F.embedding(ids, w["model.embed_tokens.weight"])
    for k in range(nets.LAYERS):
        at = "model.layers.%d." % k
        h = rms_norm(x, w[at + "input_layernorm.weight"])
        q, k, v = (heads(linear(w, at + "self_attn.%s_proj" % n, h), m) for n, m in (("q", 8), ("k", 4), ("v", 4)))
        k, v = rotary(k).repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        x = x + linear(w, at + "self_attn.o_proj", together(attend(rotary(q), k, v, True)))
        h = rms_norm(x, w[at + "post_attention_layernorm.weight"])
        x = x + linear(w, at + "mlp.down_proj", F.silu(linear(w, at + "mlp.gate_proj", h)) * linear(w, at + "mlp.up_proj", h))
    return linear(w, "lm_head", rms_norm(x, w["model.norm.weight"])).flatten(0, 1)


def turned(net, n, x):
    """A tensor of a recurrent layer as PyTorch has it: gates in its order; b is both biases."""
    order = nets.GATES[net]
    if n == "o":
        return x
    lists = x[0].reshape((-1, len(order), nets.UNITS) + x.shape[2:])
    return np.ascontiguousarray(lists[:, [order.index(k) for k in range(len(order))]].reshape(x.shape[1:]))


def recurrent(w, x, call):
    zero = torch.zeros(1, x.shape[0], nets.UNITS)
    biases = w["b"].chunk(2)
    states = (zero, zero) if call is torch.lstm else zero
    y = call(x, states, [w["w"], w["r"], biases[0], biases[1]], True, 1, 0.0, True, False, True)[0]
    return y[:, -1] @ w["o"]


def captured(work, like):
    """A function of rows that copies them to where the captured step reads them, and runs it."""
    place, side, graph = like.clone(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work(place)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        loss = work(place)

    def run(x):
        place.copy_(x)
        graph.replay()
        return loss

    return run


def time_steps(mode, forward, teacher, student, rows, batch, steps):
    adam = torch.optim.Adam(student.values(), lr=1e-3, capturable=mode == "graph")

    def loss_of(x):
        with torch.no_grad():
            p = F.softmax(forward(teacher, x) / T, 1)
        return F.kl_div(F.log_softmax(forward(student, x) / T, 1), p, reduction="batchmean") * T * T

    def work(x):
        loss = loss_of(x)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    if mode == "compile":
        for tensor in (*teacher.values(), *student.values()):
            torch._dynamo.mark_static_address(tensor)
        loss_of = torch.compile(loss_of, mode="reduce-overhead")
    elif mode == "graph":
        work = captured(work, rows[:batch])

    def step(k):
        return work(rows[k * batch % len(rows):][:batch]).item()

    first = step(0)
    for k in range(1, 1 + steps // 10):
        step(k)
    cpu, wall = time.process_time(), time.perf_counter()
    for k in range(1 + steps // 10, 1 + steps // 10 + steps):
        step(k)
    print((time.process_time() - cpu) / steps, (time.perf_counter() - wall) / steps, first, flush=True)


def main():
    folder, net, threads, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    forward = {"cnn": cnn, "encoder": encoder, "decoder": decoder, "lstm": lambda w, x: recurrent(w, x, torch.lstm),
               "gru": lambda w, x: recurrent(w, x, torch.gru)}[net]
    both = []
    for name in ("teacher.npz", "student.npz"):
        with np.load(os.path.join(folder, name)) as f:
            both.append({n: torch.from_numpy(turned(net, n, f[n]) if net in nets.GATES else f[n]).to(DEVICE).requires_grad_(name == "student.npz") for n in f.files})
    teacher, student = both
    with np.load(os.path.join(folder, "data.npz")) as f:
        rows = torch.from_numpy(f["x" if "x" in f.files else "input_ids"]).to(DEVICE)
    for mode in MODES:
        time_steps(mode, forward, teacher, student, rows, nets.BATCH[net], steps)


main()

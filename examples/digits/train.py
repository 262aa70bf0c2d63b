#!/usr/bin/env python3
"""train.py - trains the small convolutional network of this folder and writes its weights as an npz.

    python3 train.py [--epochs N] [--seed N] [-o digits.npz]

NumPy is all it needs; one run takes about a minute on one core. The names, shapes and layout are those that PyTorch
would save (weights out x in x 3 x 3, batch-norm not folded), so the file is a small model of a real checkpoint. The
seed fixes every random choice; the last bits of the weights still depend on the BLAS library behind NumPy, which is
why the trained file is kept beside this script. It does not look at the test images before the last line.

    image 1x8x8 -> conv1 32 -> bn -> relu -> conv2 64 -> bn -> relu -> max 2x2
                -> conv3 128 -> bn -> relu -> max 2x2 -> fc1 128 -> relu -> fc2 10
"""

import argparse
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
EPS = 1e-5  # of batch-norm; evaluate.c has the same
CONVS = ((1, 1, 32, False), (2, 32, 64, True), (3, 64, 128, True))  # number, in, out, followed by pooling
BATCH = 80


def new_weights(rng):
    """He initialisation; batch-norm starts as the identity."""
    w = {}
    for n, c_in, c_out, _ in CONVS:
        w[f"conv{n}.weight"] = rng.normal(0, np.sqrt(2 / (9 * c_in)), (c_out, c_in, 3, 3))
        w[f"bn{n}.weight"] = np.ones(c_out)
        w[f"bn{n}.bias"] = np.zeros(c_out)
        w[f"bn{n}.running_mean"] = np.zeros(c_out)
        w[f"bn{n}.running_var"] = np.ones(c_out)
        w[f"bn{n}.num_batches_tracked"] = np.zeros((), np.int64)
    for n, c_in, c_out in ((1, 512, 128), (2, 128, 10)):
        w[f"fc{n}.weight"] = rng.normal(0, np.sqrt(2 / c_in), (c_out, c_in))
        w[f"fc{n}.bias"] = np.zeros(c_out)
    return {k: v if v.dtype.kind == "i" else v.astype(np.float32) for k, v in w.items()}


def trainable(name):
    return not name.endswith(("running_mean", "running_var", "num_batches_tracked"))


def augment(x, rng):
    """Turns each image by up to 10 degrees, scales it by up to 10 %, moves it by up to one pixel (bilinear)."""
    n = len(x)
    angle = rng.uniform(-0.18, 0.18, n)
    scale = rng.uniform(0.9, 1.1, n)
    shift = rng.uniform(-1.0, 1.0, (n, 2))
    yy, xx = np.mgrid[0:8, 0:8] - 3.5
    c, s = np.cos(angle) * scale, np.sin(angle) * scale
    py = c[:, None, None] * yy - s[:, None, None] * xx + shift[:, 0, None, None] + 3.5 + 2
    px = s[:, None, None] * yy + c[:, None, None] * xx + shift[:, 1, None, None] + 3.5 + 2
    padded = np.pad(x, ((0, 0), (2, 2), (2, 2)))
    py, px = np.clip(py, 0, 10.999), np.clip(px, 0, 10.999)
    y0, x0 = py.astype(int), px.astype(int)
    fy, fx = py - y0, px - x0
    i = np.arange(n)[:, None, None]
    top = padded[i, y0, x0] * (1 - fx) + padded[i, y0, x0 + 1] * fx
    low = padded[i, y0 + 1, x0] * (1 - fx) + padded[i, y0 + 1, x0 + 1] * fx
    return (top * (1 - fy) + low * fy).astype(np.float32)


def patches(x):
    """N x H x W x C -> one row of C*9 values per pixel, in the order of a weight's last three dimensions."""
    n, h, wd, c = x.shape
    v = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), (1, 2))
    return v.reshape(n * h * wd, c * 9)


def patches_back(d, shape):
    """The gradient of patches(): adds every value back to the pixel it was read from."""
    n, h, wd, c = shape
    d = d.reshape(n, h, wd, c, 3, 3)
    out = np.zeros((n, h + 2, wd + 2, c), np.float32)
    for i in range(3):
        for j in range(3):
            out[:, i : i + h, j : j + wd] += d[..., i, j]
    return out[:, 1:-1, 1:-1]


def forward(w, images, training):
    """Logits, and with training what backward() needs. Updates the running statistics of w when training."""
    x, tape = images[..., None], []
    for n, _, c_out, pool in CONVS:
        cols, shape = patches(x), x.shape
        z = cols @ w[f"conv{n}.weight"].reshape(c_out, -1).T
        if training:
            mean, var = z.mean(0), z.var(0)
            w[f"bn{n}.running_mean"] = 0.9 * w[f"bn{n}.running_mean"] + np.float32(0.1) * mean
            w[f"bn{n}.running_var"] = 0.9 * w[f"bn{n}.running_var"] + np.float32(0.1) * var * len(z) / (len(z) - 1)
            w[f"bn{n}.num_batches_tracked"] = w[f"bn{n}.num_batches_tracked"] + 1
        else:
            mean, var = w[f"bn{n}.running_mean"], w[f"bn{n}.running_var"]
        inv = (1 / np.sqrt(var + EPS)).astype(np.float32)
        hat = (z - mean) * inv
        y = np.maximum(hat * w[f"bn{n}.weight"] + w[f"bn{n}.bias"], 0).reshape(*shape[:3], c_out)
        at = None
        if pool:
            b, h, wd, c = y.shape
            quads = y.reshape(b, h // 2, 2, wd // 2, 2, c).transpose(0, 1, 3, 5, 2, 4).reshape(b, h // 2, wd // 2, c, 4)
            at = quads.argmax(-1)
            tape.append((n, cols, shape, hat, inv, y > 0, at))
            y = quads.max(-1)
        else:
            tape.append((n, cols, shape, hat, inv, y > 0, at))
        x = y
    flat = np.ascontiguousarray(x.transpose(0, 3, 1, 2)).reshape(len(x), -1)  # channel, row, column
    hidden = np.maximum(flat @ w["fc1.weight"].T + w["fc1.bias"], 0)
    keep = None
    if training is not False:
        keep = (training.random(hidden.shape) > 0.3) / np.float32(0.7)  # dropout
        hidden = (hidden * keep).astype(np.float32)
    return hidden @ w["fc2.weight"].T + w["fc2.bias"], (tape, x.shape, flat, hidden, keep)


def backward(w, saved, d):
    """Gradients of all trainable tensors from the gradient d of the logits."""
    tape, last, flat, hidden, keep = saved
    g = {"fc2.weight": d.T @ hidden, "fc2.bias": d.sum(0)}
    d = (d @ w["fc2.weight"]) * keep * (hidden > 0)
    g["fc1.weight"], g["fc1.bias"] = d.T @ flat, d.sum(0)
    d = (d @ w["fc1.weight"]).reshape(last[0], last[3], last[1], last[2]).transpose(0, 2, 3, 1)
    for n, cols, shape, hat, inv, positive, at in reversed(tape):
        if at is not None:
            b, h, wd, c = at.shape
            quads = np.zeros((b, h, wd, c, 4), np.float32)
            np.put_along_axis(quads, at[..., None], d[..., None], -1)
            d = quads.reshape(b, h, wd, c, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(b, 2 * h, 2 * wd, c)
        d = (d * positive).reshape(-1, positive.shape[-1])
        g[f"bn{n}.weight"], g[f"bn{n}.bias"] = (d * hat).sum(0), d.sum(0)
        d = d * w[f"bn{n}.weight"]
        d = (d - d.mean(0) - hat * (d * hat).mean(0)) * inv
        weight = w[f"conv{n}.weight"]
        g[f"conv{n}.weight"] = (d.T @ cols).reshape(weight.shape)
        if n > 1:
            d = patches_back(d @ weight.reshape(len(weight), -1), shape)
    return g


def train(w, images, labels, epochs, rng):
    """Adam with weight decay and a learning rate that falls along a cosine."""
    m = {k: np.zeros_like(v) for k, v in w.items() if trainable(k)}
    v = {k: np.zeros_like(a) for k, a in m.items()}
    steps, step = epochs * (len(images) // BATCH), 0
    for epoch in range(epochs):
        order, loss, right = rng.permutation(len(images)), 0.0, 0
        for first in range(0, len(order) - BATCH + 1, BATCH):
            pick = order[first : first + BATCH]
            logits, saved = forward(w, augment(images[pick], rng), rng)
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            rows = np.arange(BATCH)
            loss -= np.log(p[rows, labels[pick]] + 1e-12).sum()
            right += (p.argmax(1) == labels[pick]).sum()
            p[rows, labels[pick]] -= 1
            step += 1
            rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * step / steps))
            for k, grad in backward(w, saved, p / BATCH).items():
                m[k] = 0.9 * m[k] + 0.1 * grad
                v[k] = 0.999 * v[k] + 0.001 * grad * grad
                change = m[k] / (1 - 0.9**step) / (np.sqrt(v[k] / (1 - 0.999**step)) + 1e-8)
                decay = 1e-2 * w[k] if w[k].ndim > 1 else 0
                w[k] = (w[k] - rate * (change + decay)).astype(np.float32)
        if epoch % 10 == 9 or epoch == epochs - 1:
            print(f"epoch {epoch + 1:3}: loss {loss / len(order):.4f}, {100 * right / len(order):.2f} % right", flush=True)


def main():
    options = argparse.ArgumentParser(description="Trains the digits network.")
    options.add_argument("--epochs", type=int, default=120)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("-o", "--output", default=str(HERE / "digits.npz"))
    args = options.parse_args()
    data = np.load(HERE / "images.npz")
    rng = np.random.default_rng(args.seed)
    w = new_weights(rng)
    train(w, data["train_images"].astype(np.float32) / 16, data["train_labels"], args.epochs, rng)
    w = {k: v.astype(np.float32) if v.dtype.kind == "f" else v for k, v in w.items()}
    np.savez(args.output, **w)
    logits, _ = forward(w, data["test_images"].astype(np.float32) / 16, False)
    right = int((logits.argmax(1) == data["test_labels"]).sum())
    n = len(logits)
    print(f"{args.output}: {sum(v.size for v in w.values()):,} values; {right} of {n} test images, {100 * right / n:.2f} %")


if __name__ == "__main__":
    main()

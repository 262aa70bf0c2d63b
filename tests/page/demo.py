#!/usr/bin/env python3
"""demo.py FILE.npz - writes a small decoder with weights as trained models have them: rows of different scales, long
tails, a few outliers in the later layers. For looking at pages; the same file every time."""
import array, io, random, struct, sys, zipfile

HIDDEN, INNER, VOCABULARY, LAYERS = 64, 172, 1000, 12


def weight(rng, rows, columns, outliers=0):
    values = array.array("f")
    for _ in range(rows):
        scale = 0.02 * rng.lognormvariate(0, 0.45)
        for _ in range(columns):
            values.append(rng.gauss(0, scale) * (1.0 + 0.6 * rng.expovariate(1.0)))
    for k in range(outliers):
        values[rng.randrange(len(values))] = 0.25 * (k + 1)
    return (rows, columns), values


def main(path):
    rng = random.Random(1)
    tensors = {"model.embed_tokens.weight": weight(rng, VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        for part in "qkvo":
            tensors[f"{name}self_attn.{part}_proj.weight"] = weight(rng, HIDDEN, HIDDEN)
        tensors[name + "mlp.gate_proj.weight"] = weight(rng, INNER, HIDDEN)
        tensors[name + "mlp.up_proj.weight"] = weight(rng, INNER, HIDDEN)
        tensors[name + "mlp.down_proj.weight"] = weight(rng, HIDDEN, INNER, outliers=layer // 3)
        tensors[name + "input_layernorm.weight"] = (HIDDEN,), array.array("f", [1.0] * HIDDEN)
    tensors["lm_head.weight"] = weight(rng, VOCABULARY, HIDDEN)
    with zipfile.ZipFile(path, "w") as out:
        for name, (shape, values) in tensors.items():
            if sys.byteorder == "big":
                values.byteswap()
            head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
            head += " " * (-(len(head) + 11) % 64) + "\n"
            body = io.BytesIO()
            body.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + values.tobytes())
            out.writestr(zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0)), body.getvalue())


if __name__ == "__main__":
    main(sys.argv[1])

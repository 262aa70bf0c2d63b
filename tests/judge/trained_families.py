#!/usr/bin/env python3
"""trained_families.py - which families of models can be trained, and are their gradients right?

    trained_families.py               every model of tests/graph/goldens
    trained_families.py bert gpt2     those whose names begin so
    trained_families.py --table       the table of docs/distillation.md

VCOMPRESS_PROGRAM names the program. Each model is a folder as transformers saves it. Its pruned copy is the student, and it
is the teacher; rows of tokens end in padding, images are noise. `vcompress distill --precision f64` makes one step, and
`vcompress evaluate` judges the copy. transformers computes the same in double (make.py of the goldens says how). Compared
are loss, divergence (of hidden states the squared error or the cosine) and cross-entropy, and every gradient of the first
step, against the largest of its tensor, or against 1e-3 of the largest of all where that is more (gradients that are 0 but
for noise). The int8 copy of each model is a
student, too: it has to train, or be refused with a sentence.

A model passes when it is within 1e-9, or when every command refuses it. Exit status 77: transformers 5 is missing.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "graph", "goldens"))
sys.dont_write_bytecode = True
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import make  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import transformers  # noqa: E402

PROGRAM = os.environ.get("VCOMPRESS_PROGRAM", "vcompress")
ROWS, ALPHA, TEMPERATURE, BOUND = 6, 0.5, 2.0, 1e-9
CAUSAL = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


def vc(*args):
    got = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=120, check=False)
    return got.returncode, (got.stderr + got.stdout).strip()


def make_rows(name, config):
    """Arrays of inputs, and the mask of positions."""
    rng = np.random.default_rng(sum(name.encode()))
    class_name, values, size = make.GOLDENS[name]
    if isinstance(size, tuple) and len(size) == 4:
        return {"pixel_values": rng.standard_normal((ROWS, *size[1:]))}, None
    arrays, words = {}, values["vocab_size"]
    if isinstance(size, tuple) and len(size) == 3:
        arrays["input_features"] = rng.standard_normal((ROWS, *size[:2]))
    if isinstance(size, tuple):
        arrays["decoder_input_ids"] = rng.integers(2, words, (ROWS, size[-1]))
    if isinstance(size, tuple) and len(size) == 3:
        return arrays, None
    n = size[0] if isinstance(size, tuple) else size
    pad = getattr(config, "pad_token_id", None)
    ids = arrays["input_ids"] = rng.integers(2, words, (ROWS, n))
    mask = arrays["attention_mask"] = (np.arange(n) < rng.integers(3, n + 1, ROWS)[:, None]).astype("i8")
    if pad is not None and class_name != "Phi3ForCausalLM":
        ids[mask == 0] = pad
    return arrays, mask


def weights_of(name, folder):
    """As from_pretrained reads them: experts that are saved one by one together."""
    config = make.config_of(name)
    return getattr(transformers, make.GOLDENS[name][0]).from_pretrained(folder, config=config).state_dict()


def build(name, weights):
    """In double, where the caller says that float32 is double."""
    model = getattr(transformers, make.GOLDENS[name][0])(make.config_of(name)).double()
    model.load_state_dict({k: v.double() if v.is_floating_point() else v for k, v in weights.items()})
    model.tie_weights()
    return model.eval()


def answers(model, arrays):
    given = {k: torch.from_numpy(v) for k, v in arrays.items()}
    out = model(**{k: v.double() if v.is_floating_point() else v for k, v in given.items()})
    return next(out[k] for k in make.OUTPUTS if out.get(k) is not None)


def terms(z, t, y, mask, hidden):
    """Loss, teacher's term and cross-entropy over the positions that count."""
    keep = torch.ones(z.shape[:-1], dtype=torch.bool) if mask is None or z.dim() == 2 else torch.from_numpy(mask != 0)
    if hidden:
        kd = ((z - t) ** 2)[keep].mean() if hidden == "mse" else (1 - F.cosine_similarity(z, t, dim=-1, eps=0)[keep]).mean()
        return kd, kd, None
    kd = F.kl_div(F.log_softmax(z[keep] / TEMPERATURE, 1), F.softmax(t[keep] / TEMPERATURE, 1),
                  reduction="batchmean") * TEMPERATURE ** 2
    has = keep & (y >= 0)
    ce = F.cross_entropy(z[has], y[has])
    return ALPHA * kd + (1 - ALPHA) * ce, kd, ce


def labels_of(name, z, arrays, mask):
    """What the classes are to be, and whether they are in the file; of decoders what stands at the next place."""
    rng = np.random.default_rng(7)
    if z.dim() == 3 and make.GOLDENS[name][0].endswith(CAUSAL):
        ids = arrays.get("decoder_input_ids", arrays.get("input_ids"))
        y = np.full(ids.shape, -1)
        y[:, :-1] = ids[:, 1:]
        if mask is not None and "decoder_input_ids" not in arrays:
            y[:, :-1][mask[:, 1:] == 0] = -1
        return y, False
    return rng.integers(0, z.shape[-1], z.shape[:-1]), True


def gradients_by_file(name, model, weights, folder):
    """Gradients under the names of the file, which are other ones than in memory in some families: tensors of equal values
    are one. Rows of padding, which torch.nn.Embedding does not train, and zeros, which stay with the student, are left out: NaN."""
    from safetensors.numpy import load_file
    stored = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        stored.update({v.astype("f8").tobytes(): k for k, v in load_file(path).items()})
    found = {}
    for n, p in model.named_parameters():
        if p.grad is not None:
            of = weights[n].double().numpy()
            found[stored.get(of.tobytes(), n)] = np.where((of == 0) & n.endswith("weight"), np.nan, p.grad.numpy())
    for n, module in model.named_modules():
        if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
            key = stored.get(weights[n + ".weight"].double().numpy().tobytes(), n + ".weight")
            if key in found and not np.any(found[key][module.padding_idx]):
                found[key][module.padding_idx] = np.nan
    return found


def worst_of(found, wanted):
    largest = max(float(np.nanmax(np.abs(g))) for g in wanted.values())
    worst, where, missing = 0.0, "", []
    for n, g in wanted.items():
        if n not in found:
            missing += [n] if np.nanmax(np.abs(g)) > 0 else []
            continue
        scale = max(float(np.nanmax(np.abs(g))), 1e-3 * largest)
        off = float(np.nanmax(np.abs(found[n] - g))) / scale
        if off > worst:
            worst, where = off, n
    return worst, where, missing


def run(name, folder, tmp):
    """(what ran, error of the loss, error of gradients, remark)"""
    student, data = os.path.join(tmp, "student"), os.path.join(tmp, "data.npz")
    rc, said = vc("prune", "--sparsity", 0.3, "--min-elements", 1, "--include", "*weight", "-f", "-q", folder, "-o", student)
    if rc != 0:
        return "refused", None, None, said
    both = weights_of(name, student), weights_of(name, folder)
    with make.all_in_double():
        arrays, mask = make_rows(name, make.config_of(name))
        model, teacher = build(name, both[0]), build(name, both[1])
        with torch.no_grad():
            t = answers(teacher, arrays)
        z = answers(model, arrays)
        hidden = make.GOLDENS[name][0].endswith("Model") and "LMHead" not in make.GOLDENS[name][0]
        hidden = hidden and ("mse", "cosine")[len(name) % 2]  # hidden states are no logits: one of both
        count = mask if "decoder_input_ids" not in arrays else None
        y, given = labels_of(name, z, arrays, count)
        loss, kd, ce = terms(z, t, torch.from_numpy(y), count, hidden)
        loss.backward()
    loss, kd, ce = [None if x is None else float(x.detach()) for x in (loss, kd, ce)]
    wanted = gradients_by_file(name, model, both[0], student)
    more = {"y": y} if given and not hidden else {}
    np.savez(data, **arrays, **more)
    options = ["--loss", hidden] if hidden else ["--alpha", ALPHA, "--temperature", TEMPERATURE]
    step = ["distill", "--teacher", folder, "--data", data, "--steps", 1, "--batch", ROWS, "--order", "file", "--precision",
            "f64", "--frozen-norm", "-f", *options]
    rc, said = vc(*step, "--student", student, "--log", os.path.join(tmp, "log"), "--dump-gradients",
                  os.path.join(tmp, "g.npz"), "-o", os.path.join(tmp, "out"))
    if rc != 0:
        return "refused", None, None, said
    with open(os.path.join(tmp, "log"), encoding="utf-8") as file:
        line = json.loads(file.readline())
    off = [abs(line["kd"] - kd) / abs(kd)]
    if ce is not None:
        off += [abs(line["ce"] - ce) / abs(ce), abs(line["loss"] - loss) / abs(loss)]
    found = dict(np.load(os.path.join(tmp, "g.npz")))
    worst, where, missing = worst_of(found, wanted)
    ran = ["pruned"]
    rc, said = vc("evaluate", "--data", data, "--teacher", folder, "--precision", "f64", *options[:2 if hidden else 0], student)
    figure = re.search(r"(?:divergence|squared error|1 - cosine) ([0-9.e+-]+)", said)
    if rc == 0 and figure is not None and abs(float(figure[1]) - kd) < 1e-3 * max(kd, 0.1):
        ran.append("evaluate")
    else:
        missing.append("evaluate: " + said)
    rc, said = vc("quantize", "--int8", "--layout", "plain", "--min-elements", 1, "-f", folder, "-o", os.path.join(tmp, "int8"))
    if rc == 0 and "no weight was changed" not in said:  # rows may be too short for codes
        rc, said = vc(*[o if o != "f64" else "f32" for o in step], "--student", os.path.join(tmp, "int8"), "-o",
                      os.path.join(tmp, "out8"), "-q")
        ran += ["int8"] if rc == 0 else []
        missing += [] if rc == 0 else ["int8: " + said]
    return " ".join(ran), max(off), worst, "; ".join(filter(None, [where if worst > BOUND else "", *missing]))


def reason(remark):
    """The node of a refusal, or what of the output is wrong."""
    node = re.search(r": ([A-Z]\w+) '", remark)
    output = re.search(r"the output (\w+) is \[", remark)
    return node[1] if node else "output `%s`" % output[1] if output else remark


def table(results):
    """A line for each family, of all its models."""
    print("| family | trained | error of losses | of gradients | refused |\n|---|---|---|---|---|")
    for family in sorted({kind for kind, *_ in results}):
        own = [r for r in results if r[0] == family]
        heads = {bool(r[3] is not None): [] for r in own}
        for _, head, ran, loss, _, remark in own:
            said = head if loss is not None else "%s: %s" % (head, reason(remark))
            heads[loss is not None] += [said] if said not in heads[loss is not None] else []
        most = ["%.0e" % max(r[k] for r in own if r[k] is not None) if True in heads else "" for k in (3, 4)]
        print("| `%s` | %s | %s | %s |" % (family, ", ".join(heads.get(True, [])), " | ".join(most),
                                           "; ".join(heads.get(False, []))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    failed, results = 0, []
    for name in sorted(make.GOLDENS):
        folder = os.path.join(make.HERE, name)
        if (options.names and not name.startswith(tuple(options.names))) or name in make.GGUF or not os.path.isdir(folder):
            continue
        with tempfile.TemporaryDirectory() as tmp:
            ran, loss, worst, remark = run(name, folder, tmp)
        wrong = worst is not None and (remark != "" or not (worst < BOUND and loss < BOUND))
        failed += wrong
        config = make.config_of(name)
        head = make.GOLDENS[name][0].replace(type(config).__name__.replace("Config", "").replace("Text", ""), "")
        results.append((config.model_type, head.replace("Text", "", 1), ran, loss, worst, remark))
        if wrong or not options.table:
            digits = ["-" if x is None else "%.0e" % x for x in (loss, worst)]
            print("WRONG" if wrong else "right", name, make.GOLDENS[name][0], ran, *digits, remark.replace("\n", " "), sep="  ",
                  flush=True)
    if options.table:
        table(results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

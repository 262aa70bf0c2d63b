#!/usr/bin/env python3
"""loads.py VCOMPRESS [--schemes int8,nf4] [--rows FILE] [TYPE ...]: does transformers load what vcompress makes of every type of model?

Run by hand, with a new transformers: some minutes per scheme and core; --rows lets it go on where it was ended. Of every model_type a small model with random weights is saved, quantized as the layout auto
has it, and loaded with from_pretrained (what the report's `needs` says is passed). Wrong: a key is missing, unexpected or of another shape that was not so
before; a layer's weight is not the one that `vcompress dequantize` makes of the codes; outputs are far from those of the decoded weights. Refused is right.
Prints a row per type and scheme that is not right, and a table at the end. Exit status 1: something is wrong.
"""
import argparse
import gc
import json
import logging
import os
import pickle
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
import torch
import transformers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
import architectures
import small_models

transformers.logging.set_verbosity(50)
transformers.logging.disable_progress_bar()
SCHEMES = {"int8": ["--int8"], "int4": ["--int4"], "nf4": ["--nf4"], "nvfp4": ["--nvfp4"], "w8a8": ["--int8", "--layout", "w8a8"], "fp8": ["--fp8"],
           "mxfp4": ["--mxfp4"]}
# What a layout does to the inputs of layers: e4m3 has steps of 1/8 of a value, int8 and fp4 with a scale larger ones; the rest computes in another order.
STEPS = {"fp8": 2 ** -3, "w8a8": 2 ** -3, "nvfp4": 2 ** -7, "mxfp4": 2 ** -7, "nf4": 2 ** -7, "int8": 2 ** -5}
MOST = {"w8a8": 0.2, "fp8": 0.2, "nvfp4": 0.05, "mxfp4": 0.05, "int8": 0.15, "nf4": 0.1}  # of outputs: some layouts round inputs of layers, too


def short(error):
    return "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:140])


def inputs_for(model):
    config = model.config
    ids = torch.arange(10, 26)[None]
    side = next((v for v in (architectures.get(config, "image_size"), architectures.get(architectures.get(config, "vision_config"), "image_size"))
                 if isinstance(v, int)), 64)
    image = torch.linspace(-1, 1, 3 * side * side).reshape(1, 3, side, side)
    yield dict(input_ids=ids)
    yield dict(input_ids=ids, decoder_input_ids=ids)
    yield dict(pixel_values=image)
    yield dict(input_ids=ids, pixel_values=image)
    yield dict(input_values=torch.linspace(-1, 1, 4000)[None])
    yield dict(pixel_values=image[:, None].repeat(1, 4, 1, 1, 1))
    yield dict(input_features=torch.linspace(-1, 1, 8000).reshape(1, 80, 100), decoder_input_ids=ids)


def outputs(model, inputs, seed=0):
    torch.manual_seed(seed)
    with torch.no_grad():
        out = model(**{k: v.to(model.dtype) if v.is_floating_point() else v for k, v in inputs.items()})
    found = [v for v in out.values() if torch.is_tensor(v) and v.is_floating_point() and v.numel() > 1]
    return found[0].float()


def outputs_apart(model, inputs):
    """The same in a process of its own: kernels of loaders may end it."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = outputs(model, inputs).numpy()
        except BaseException as e:
            answer = short(e)
        with os.fdopen(w, "wb") as f:
            pickle.dump(answer, f)
        os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as f:
        data = f.read()
    _, status = os.waitpid(pid, 0)
    answer = pickle.loads(data) if os.WIFEXITED(status) and data else "ended by signal %d" % os.WTERMSIG(status)
    if isinstance(answer, str):
        raise RuntimeError(answer)
    return torch.from_numpy(answer)


def load(cls, folder, **more):
    torch.set_default_dtype(torch.float32)
    return cls.from_pretrained(folder, dtype=more.pop("dtype", torch.float32), output_loading_info=True, **more)


def weights_of(model):
    """The values of all parameters, codes decoded."""
    quantizer = getattr(model, "hf_quantizer", None)
    found = {k: v.detach() for k, v in model.state_dict().items()}
    if quantizer is not None and type(quantizer).__name__.startswith("Bnb"):
        import bitsandbytes
        from transformers.integrations.bitsandbytes import dequantize_bnb_weight
        for name, m in model.named_modules():
            if isinstance(m, (bitsandbytes.nn.Linear8bitLt, bitsandbytes.nn.Linear4bit)):
                found[name + ".weight"] = dequantize_bnb_weight(m.weight, getattr(m, "state", None)).float()
    elif quantizer is not None and not quantizer.quantization_config.dequantize:
        quantizer.compressor.decompress_model(model)
        quantizer.compressor.remove_decompression_hook(model)
        found = {k: v.detach() for k, v in model.state_dict().items()}
    return found


def own_outputs(cls, folder, inputs, scheme):
    """Those of bitsandbytes' own codes of the model; None: it does not run."""
    four = scheme != "int8"
    try:
        model, _ = load(cls, folder, quantization_config=transformers.BitsAndBytesConfig(load_in_8bit=not four, load_in_4bit=four))
        return outputs_apart(model, inputs)
    except Exception:
        return None


def distance(a, b):
    return float((a - b).norm() / (b.norm() + 1e-30)) if a.shape == b.shape else float("inf")


def noise_of_inputs(model, inputs, want, step):
    """How far the outputs go when what every linear layer reads is moved by up to half of `step` of itself. Layouts that round what layers
    read do that, and loaders that compute in another order do it with tiny steps. Infinite: the lengths of the outputs follow from
    values (vits); large: another expert or another code was chosen."""
    def move(_, given):
        x = given[0]
        return ((x * (1 + step * (torch.rand(x.shape, dtype=torch.float32) - 0.5)).to(x.dtype)), *given[1:])

    hooks = [m.register_forward_pre_hook(move) for m in model.modules() if isinstance(m, torch.nn.Linear)]
    try:
        return max(distance(outputs(model, inputs, seed), want) for seed in range(3))
    finally:
        for h in hooks:
            h.remove()


def keys(info):
    return {k: {str(x) for x in info.get(k) or ()} for k in ("missing_keys", "unexpected_keys", "mismatched_keys")}


def judge(cls, folder, before, program, words, scheme):
    """(verdict, sentence)"""
    out = folder + ".q"
    p = subprocess.run([program, "quantize", *words, "--json", folder, "-o", out, "--force"], capture_output=True, text=True)
    if p.returncode == 3:
        return "refused", " ".join(p.stderr.split())[-230:]
    if p.returncode:
        return "wrong", "status %d: %s" % (p.returncode, p.stderr.strip()[-200:])
    report = json.loads(p.stdout)
    layout = report["output"]["layout"] or {}
    needs = layout.get("needs") or ""
    if not layout.get("loader") and layout.get("name") == "plain":
        return "plain", needs
    more = {}
    if "dequantize=True" in needs:
        more = dict(quantization_config=transformers.CompressedTensorsConfig(dequantize=True))
    elif "another loader" in needs:
        return "refused", needs
    if "dtype=torch.bfloat16" in needs:
        more["dtype"] = torch.bfloat16
    said = json.load(open(out + "/config.json")).get("quantization_config")
    if said is None:
        return "nothing", "no weight became codes"
    floats = folder + ".floats"
    p = subprocess.run([program, "dequantize", "-q", out, "-o", floats, "--force"], capture_output=True, text=True)
    if p.returncode:
        return "wrong", "dequantize: " + p.stderr.strip()[-200:]
    try:
        model, info = load(cls, out, **dict(more))
    except Exception as e:
        return "wrong", "load %s: %s" % (layout["name"], short(e))
    now = keys(info)
    for k in now:
        if now[k] - before[k]:
            return "wrong", "%s: %d %s, such as %s" % (layout["name"], len(now[k] - before[k]), k, sorted(now[k] - before[k])[0])
    try:
        best, _ = load(cls, floats, **({"dtype": more["dtype"]} if "dtype" in more else {}))
    except Exception as e:
        return "wrong", "load of floats: %s" % short(e)
    note, inputs, got = "", None, None
    for given in inputs_for(best):
        try:
            want = outputs(best, given)
            inputs = given
            break
        except Exception:
            continue
    want_w = weights_of(best)
    try:
        got_w = weights_of(model)
    except Exception as e:
        return "wrong", "decoding %s: %s" % (layout["name"], short(e))
    if inputs is not None:
        try:
            got = outputs_apart(model, inputs)
        except Exception as e:
            if layout["name"] != "bitsandbytes" or own_outputs(cls, floats, inputs, scheme) is not None:
                return "wrong", "%s runs: %s" % (layout["name"], short(e))
            return "own fails", "%s runs neither these codes nor its own: %s" % (layout["name"], short(e))
    turned = {n + ".weight" for n, m in best.named_modules() if type(m).__name__ == "Conv1D" and type(model.get_submodule(n)).__name__ != "Conv1D"}
    missing = {k for k in want_w if k not in got_w}
    if missing:
        return "wrong", "%s: no weight %s" % (layout["name"], sorted(missing)[0])
    for k, w in want_w.items():
        g = got_w[k] if k not in turned else got_w[k].T
        if g.shape != w.shape:
            return "wrong", "%s: %s has shape %s" % (layout["name"], k, list(g.shape))
        if w.is_floating_point() and k not in before["missing_keys"]:
            off = float((g.float() - w.float()).nan_to_num().norm()) if not torch.equal(g.float(), w.float()) else 0.0
            if not off <= 0.01 * float(w.float().norm()) + 1e-6:
                return "wrong", "%s: %s is off by %.3g" % (layout["name"], k, off / (float(w.float().norm()) + 1e-30))
    if got is not None:
        most, off = MOST.get(scheme, 0.02), distance(got, want)
        if not off <= most and layout["name"] == "bitsandbytes":  # it rounds inputs, after which other queries may be the best
            own = own_outputs(cls, floats, inputs, scheme)
            apart = None if own is None else distance(own, want)
            if apart is not None and apart > 0.5:
                return "own fails", "bitsandbytes' own codes are off by %.3g, these by %.3g" % (apart, off)
            most = most if apart is None else 2 * apart
        if not off <= most:
            most = 2 * noise_of_inputs(best, inputs, want, STEPS.get(scheme, 1e-4))
        if not off <= most:
            return "far", "%s: outputs off by %.3g" % (layout["name"], off)
        note = "%.4f" % off
    return "right", "%s %s%s" % (layout["name"], note or "weights alone", " with dequantize" if "quantization_config" in more else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--schemes", default=",".join(SCHEMES))
    parser.add_argument("--rows", help="a file to which every row is added; types that have all rows there are left out")
    parser.add_argument("--part", default="0/1", help="2/4: the third quarter of the types")
    parser.add_argument("types", nargs="*")
    options = parser.parse_intermixed_args()
    program = os.path.abspath(options.program)
    torch.set_num_threads(1)
    schemes = options.schemes.split(",")
    count = {s: {} for s in schemes}
    part, parts = map(int, options.part.split("/"))
    all_types = [t for i, t in enumerate(sorted(architectures.classes().items())) if i % parts == part]
    rows, seen = open(options.rows, "a+") if options.rows else None, {}
    if rows:
        rows.seek(0)
        for line in rows:
            seen.setdefault(line.split()[0], set()).add(line.split()[1])
    with tempfile.TemporaryDirectory() as scratch:
        folder = scratch + "/m"
        for kind, c in all_types:
            if options.types and kind not in options.types or not list(small_models.model_classes(kind)) or seen.get(kind, set()) >= set(schemes):
                continue
            model = small_models.build(kind, c)
            if model is None:
                verdicts = {s: ("not made", "") for s in schemes}
            else:
                try:
                    subprocess.run(["rm", "-rf", folder])
                    cls = type(model)
                    model.save_pretrained(folder)
                    before = keys(load(cls, folder)[1])
                    del model
                    gc.collect()
                    if before["missing_keys"]:
                        raise ValueError("the original does not load: %s" % sorted(before["missing_keys"])[0])
                    verdicts = {s: judge(cls, folder, before, program, SCHEMES[s], s) for s in schemes}
                except Exception as e:
                    verdicts = {s: ("not made", short(e)) for s in schemes}
            for s, (verdict, sentence) in verdicts.items():
                count[s][verdict] = count[s].get(verdict, 0) + 1
                row = "%-28s %-6s %-8s %s" % (kind, s, verdict, sentence)
                if verdict in ("wrong", "far"):
                    print(row, flush=True)
                if rows:
                    print(row, file=rows, flush=True)
            gc.collect()
    verdicts = sorted({v for c in count.values() for v in c})
    print("transformers %s | " % transformers.__version__ + " | ".join(verdicts))
    for s in schemes:
        print("%-6s | " % s + " | ".join(str(count[s].get(v, 0)) for v in verdicts))
    return any("wrong" in c or "far" in c for c in count.values())


if __name__ == "__main__":
    sys.exit(main())

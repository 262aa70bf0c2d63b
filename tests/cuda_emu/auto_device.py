#!/usr/bin/env python3
"""auto_device.py VCOMPRESS: what `--device auto` chooses, on the emulated card (VCOMPRESS_BACKEND_PATH).

- Over types, sizes and processors, the device of a dry run is the one with the lesser of the two times that it prints; types that
  only pass by never get a card, and more processors never make a job slower.
- A run does what its dry run said, and writes the bytes of the CPU. Small tensors stay there, with --device cuda, too.
- Without plug-in, driver, card or memory `auto` says why the CPU computes; --device cuda is refused, and nothing is written.

Needs no NumPy; weights of sizes that are only asked about are holes in files."""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
DIGITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "digits")
NEVER = ("--int8", "--fp16", "--bf16", "--fp8", "--gguf=q8_0")
# Not nvfp4: its plan looks at every weight.
TYPES = NEVER + ("--int4", "--nf4", "--scheme=int6", "--gguf=q4_k", "--gguf=q3_k", "--gguf=iq4_xs", "--gguf=q6_k")
FAILURES = []


def make(path, shapes, filled=False):
    """bf16 weights of these shapes; zeros unless filled."""
    header, at = {}, 0
    for i, (rows, columns) in enumerate(shapes):
        size = rows * columns * 2
        header["model.layers.%d.mlp.up_proj.weight" % i] = {"dtype": "BF16", "shape": [rows, columns], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as to:
        to.write(struct.pack("<Q", len(text)) + text)
        if filled:
            rng = random.Random(7)
            to.write(b"".join(struct.pack("<f", rng.gauss(0, 0.05))[2:] for _ in range(at // 2)))
        to.truncate(8 + len(text) + at)


def call(*options, env=None, **more):
    done = subprocess.run([PROGRAM, "quantize", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, **(env or {})), **more)
    return done.returncode, done.stdout, done.stderr.decode()


def run_of(*options, env=None):
    rc, out, err = call(*options, "--json", env=env)
    return json.loads(out)["run"] if rc == 0 else {"device": "status %d: %s" % (rc, err)}


def want(good, *what):
    if not good:
        FAILURES.append(what)
        print("FAILED:", *what)


def output_of(kind):
    return "o.gguf" if "gguf" in kind else "o.safetensors"


def choices():
    """The lesser of two times, over all cases."""
    seen = {"cpu": 0, "cuda": 0}
    for millions in (1, 268, 8590):
        make("w", [(4096, 1024)] if millions == 1 else [(16384, 16384)] * (millions // 268))
        os.replace("w", "w.safetensors")
        for kind in TYPES:
            before = None
            for threads in ("1", "5", "48"):
                run = run_of(kind, "-n", "--threads", threads, "-o", output_of(kind), "w.safetensors")
                cpu, card = run.get("expected_cpu_seconds"), run.get("expected_card_seconds")
                if cpu is None or card is None:
                    want(False, kind, millions, run)
                    continue
                chosen = "cuda" if card < cpu else "cpu"
                seen[chosen] += 1
                want(run["device"].startswith(chosen), kind, millions, threads, run)
                want((run["device_reason"] is None) == (chosen == "cuda"), kind, millions, threads, run)
                want(chosen == "cpu" or kind not in NEVER, kind, millions, threads, run)
                want(before is None or min(cpu, card) <= before, kind, millions, threads, before, run)
                before = min(cpu, card)
    want(min(seen.values()) >= 5, "cases", seen)
    print("%d cases chose the CPU, %d the card" % (seen["cpu"], seen["cuda"]))


def runs():
    """Dry run and run agree, and the bytes are the CPU's."""
    make("w.safetensors", [(128, 256), (16, 256)], filled=True)
    for kind in ("--int4", "--gguf=q4_k", "--int8"):
        what = (kind, "--threads", "2", "--force", "-o", output_of(kind), "w.safetensors")
        bytes_of = {}
        for device in ("cpu", "auto", "cuda"):
            env = {"VCOMPRESS_CARD_START": "0"}
            dry = run_of("-n", "--device", device, *what, env=env)
            done = run_of("--device", device, *what, env=env)
            same = ("device", "device_reason", "expected_cpu_seconds", "expected_card_seconds")
            want(all(dry.get(k) == done.get(k) for k in same), kind, device, dry, done)
            by_card = device == "cuda" or (device == "auto" and kind != "--int8")
            want(done["device"].startswith("cuda" if by_card else "cpu"), kind, device, done)
            with open(output_of(kind), "rb") as f:
                bytes_of[device] = f.read()
        want(len(set(bytes_of.values())) == 1, kind, "other bytes")
    make("w.safetensors", [(127, 256)] * 3, filled=True)  # less than 2^15 weights each
    log = os.path.abspath("log")
    with open(log, "w"):
        pass
    want(run_of("--int4", "--device", "cuda", "--force", "-o", "o.safetensors", "w.safetensors", env={"VC_EMU_LOG": log})
         ["device"].startswith("cuda"), "small tensors")
    with open(log) as lines:
        want(not [line for line in lines if line.startswith("launch")], "small tensors on the card")


def failures():
    """Why there is no card."""
    make("w.safetensors", [(16384, 16384)] * 4)
    for env, why in (({"VCOMPRESS_BACKEND_PATH": "/nonexistent"}, "could not be loaded"),
                     ({"VC_EMU_DEVICES": "-1"}, "no NVIDIA driver is installed"),
                     ({"VC_EMU_DEVICES": "0"}, "sees no device"),
                     ({"VC_EMU_CARD": "1000"}, "out of memory"),
                     ({"VC_EMU_FAIL": "4"}, "this build has no code for it")):
        run = run_of("--int4", "-n", "--threads", "1", "-o", "o.safetensors", "w.safetensors", env=env)
        want(run["device"].startswith("cpu") and why in (run.get("device_reason") or ""), env, run)
        rc, _, err = call("--int4", "--device", "cuda", "-o", "never.safetensors", "w.safetensors", env=env)
        want(rc == 4 and why in err and err.count("\n") == 1 and not os.path.exists("never.safetensors"), env, rc, err)


def wrong_start():
    """A start that is no number of seconds is refused where it is asked for."""
    for text in ("abc", "", "-1", "1e9", "nan", "2 s"):
        env = {"VCOMPRESS_CARD_START": text}
        rc, _, err = call("--int4", "-o", "never.safetensors", "w.safetensors", env=env)
        want(rc == 2 and "is no number of seconds" in err and not os.path.exists("never.safetensors"), text, rc, err)
        want(call("--int4", "--device", "cpu", "-n", "-o", "never.safetensors", "w.safetensors", env=env)[0] == 0, text)


def training():
    """Where a network would be trained: dry runs. Threads mean nothing to it."""
    net = os.path.join(DIGITS, "digits.npz")
    for more, env, by_card, why in (
            ((), {}, False, "it is expected to be faster"),
            ((), {"VCOMPRESS_CARD_START": "0"}, True, None),
            (("--threads", "1"), {"VCOMPRESS_CARD_START": "0"}, True, None),
            (("--steps", "30000"), {}, True, None),
            (("--precision", "f64"), {"VCOMPRESS_CARD_START": "0"}, False, "float64 computes on the CPU only"),
            ((), {"VCOMPRESS_CARD_START": "0", "VC_EMU_CARD": "15000000"}, False, "bytes of device memory"),
            ((), {"VCOMPRESS_CARD_START": "0", "VC_EMU_DEVICES": "-1"}, False, "no NVIDIA driver")):
        steps = () if "--steps" in more else ("--steps", "2")
        done = subprocess.run([PROGRAM, "distill", "-n", "--json", "--teacher", net, "--student", net, "--batch", "32", "--graph",
                               os.path.join(DIGITS, "digits.layers.txt"), "--data", os.path.join(DIGITS, "images.npz"), "--array",
                               "test_images=train_images", "-o", "never.npz", *steps, *more], stdout=subprocess.PIPE,
                              env=dict(os.environ, **env))
        memory = json.loads(done.stdout)["memory"] if done.returncode == 0 else {}
        want(memory and (memory["device_planned"] != 0) == by_card, more, env, memory)
        want((why or "") in (memory.get("device_reason") or "") and (why is None) == ("device_reason" not in memory), more, env, memory)
        if not more and why in (None, "it is expected to be faster"):
            want((memory["expected_card_seconds"] < memory["expected_cpu_seconds"]) == by_card, env, memory)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for part in (choices, runs, failures, wrong_start, training):
            part()
        os.chdir("/")
    return 1 if FAILURES else 0


sys.exit(main())

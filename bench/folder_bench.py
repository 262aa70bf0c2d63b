#!/usr/bin/env python3
"""folder_bench.py VCOMPRESS FOLDER [ROUNDS]: a language model's folder to NF4 for bitsandbytes, beside transformers.

FOLDER is made if it is not there: 1.1 billion bf16 weights (normal, the sizes of TinyLlama). In turns: `vcompress quantize --nf4`, and
transformers with bitsandbytes on the CPU (from_pretrained with load_in_4bit, then save_pretrained). Prints wall and processor seconds and the
memory of each process, least of ROUNDS (2), and the error of both outputs. The input is read once before each run, so that it lies in the page cache.
Needs torch, transformers and bitsandbytes in the Python that runs this.
"""
import os
import re
import shutil
import subprocess
import sys
import time

MAKE = """import sys, torch, transformers
torch.set_default_dtype(torch.bfloat16)
torch.manual_seed(0)
config = transformers.LlamaConfig(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32, num_key_value_heads=4,
                                  vocab_size=32000, max_position_embeddings=2048, tie_word_embeddings=False)
transformers.LlamaForCausalLM(config).save_pretrained(sys.argv[1])"""
PEER = """import sys, torch, transformers
how = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_quant_storage=torch.uint8)
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], quantization_config=how, dtype=torch.bfloat16)
model.save_pretrained(sys.argv[2])"""


def warm(folder):
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as f:
            while f.read(1 << 24):
                pass


def run(words, folder, out):
    """(wall seconds, processor seconds, MiB)"""
    shutil.rmtree(out, ignore_errors=True)
    warm(folder)
    start = time.time()
    pid, memory = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid, 0
    while True:
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done:
            break
        with open("/proc/%d/status" % pid, encoding="utf-8") as f:  # ru_maxrss begins with the memory of this script
            memory = max([memory] + [int(n) for n in re.findall(r"^VmHWM:\s+(\d+) kB", f.read(), re.M)])
        time.sleep(0.02)
    if status:
        raise SystemExit("failed: %s" % words)
    return time.time() - start, used.ru_utime + used.ru_stime, memory / 1024


def main():
    program, folder = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    if not os.path.exists(folder):
        subprocess.run([sys.executable, "-c", MAKE, folder], check=True)
    outs = {"vcompress": folder + ".vcompress", "transformers": folder + ".transformers"}
    words = {"vcompress": [program, "quantize", "--nf4", "-q", folder, "-o", outs["vcompress"]],
             "transformers": [sys.executable, "-c", PEER, folder, outs["transformers"]]}
    found = {who: [] for who in words}
    for _ in range(rounds):
        for who in words:
            found[who].append(run(words[who], folder, outs[who]))
    print("| | wall s | processor s | MiB | SQNR over all | MiB written |\n|---|---|---|---|---|---|")
    for who, times in found.items():
        said = subprocess.run([program, "diff", folder, outs[who]], capture_output=True, text=True, check=False).stdout
        size = sum(os.path.getsize(os.path.join(outs[who], n)) for n in os.listdir(outs[who])) / 2**20
        print("| %s | %.1f | %.1f | %.0f | %s | %.0f |" % (who, *(min(t[k] for t in times) for k in range(3)),
                                                       re.search(r"SQNR over all ([-0-9.]+ dB)", said).group(1), size))
        shutil.rmtree(outs[who])
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""check_sass.py PLUGIN: what ptxas made of the hot loops of the streaming kernels, read from the plug-in by cuobjdump.

A kernel that moves B bytes for each element has time for about 6.9 B (H200) to 9.5 B (H100) instructions an element before it is
slower than a plain copy at 0.9 of its rate. So for each loop are bounded: instructions for each element, listed ones, those of rare
ways within the loop included; registers; stores to the stack within the loop, which rare ways alone may have. Of searches that threads share: registers and stack. Exit 77 where the
machine lacks nvcc's plug-in or cuobjdump (of the toolkit, or PyPI's nvidia-cuda-cuobjdump)."""
import collections
import glob
import os
import re
import shutil
import subprocess
import sys

ARCHITECTURE = "sm_90"

# part of the mangled name, elements of one turn of the loop, what marks the loop and how often, instructions an element,
# registers, stores to the stack
LOOPS = [
    ("3ownILi1ELi4ELi4ELi0ELb1E", 4, "DFMA", 8, 94, 64, 52),
    ("3ownILi2ELi4ELi4ELi1ELb1E", 8, "DFMA", 16, 58, 64, 52),
    ("3ownILi4ELi4ELi4ELi2ELb1E", 16, "DFMA", 32, 39, 80, 52),
    ("3ownILi8ELi4ELi4ELi2ELb1E", 32, "DFMA", 64, 30, 128, 56),
    ("3ownILi16ELi2ELi2ELi1ELb1E", 32, "DFMA", 64, 30, 128, 52),
    ("3ownILi4ELi4ELi1ELi1ELb1E", 16, "DFMA", 32, 44, 80, 56),
    ("3ownILi2ELi8ELi4ELi2ELb0E", 16, "DFMA", 32, 47, 128, 72),
    ("12block_kernel8row_args", 64, "DFMA", 128, 31, 128, 48),
    ("quick_cast_opI7f32_f16ELb1E", 16, "DFMA", 32, 28, 80, 16),
    ("quick_cast_opI8f32_bf16ELb1E", 16, "DFMA", 32, 31, 80, 16),
    ("values_opIfELb1E", 16, "DFMA", 16, 28, 80, 16),
    ("diff_opIfELb1E", 16, "DFMA", 48, 37, 128, 42),
    ("12range_kernelILb1E", 16, "LDG", 4, 6, 40, 0),
    ("convert_opI7f16_f32E", 16, "FMUL", 16, 20, 40, 0),
    ("convert_opI8bf16_f32E", 16, "PRMT", 16, 14, 40, 0),
]

# kernels whose threads share a search: registers and bytes of stack at most
SEARCHES = [("make_kernelI%d%s_blockLb%dE" % (len(name) + 6, name, weights), 64, 0)
            for name in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k") for weights in (0, 1)]
SEARCHES += [("groups_kernelIL7vc_grid%dELb%dE" % (grid, weights), 80, 8) for grid in range(5) for weights in (0, 1)]


def cuobjdump():
    found = [os.environ.get("VCOMPRESS_CUOBJDUMP"), shutil.which("cuobjdump"), "/usr/local/cuda/bin/cuobjdump"]
    for folder in sys.path:
        found += glob.glob(os.path.join(folder, "nvidia", "*", "bin", "cuobjdump"))
    return next((f for f in found if f and os.access(f, os.X_OK)), None)


def loops(listing):
    """the opcodes of every loop of a function, from the target of a backward branch to the branch"""
    code = [(int(m.group(1), 16), m.group(2)) for m in re.finditer(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?);", listing, re.M)]
    place = {at: k for k, (at, _) in enumerate(code)}
    names = [re.sub(r"^@!?U?P\w+\s+", "", text).split()[0].split(".")[0] for _, text in code]
    for k, (at, text) in enumerate(code):
        target = re.search(r"\bBRA\S*\s.*?(0x[0-9a-f]+)", text)
        first = place.get(int(target.group(1), 16)) if target else None
        if first is not None and first < k:
            yield collections.Counter(names[first:k + 1])


def main():
    plugin, tool, failed = sys.argv[1], cuobjdump(), 0
    if not os.path.isfile(plugin) or tool is None:
        print("skipped: no " + ("cuobjdump" if os.path.isfile(plugin) else "plug-in built by nvcc"))
        return 77

    def ask(*options):
        return subprocess.run([tool, *options, "-arch", ARCHITECTURE, plugin], capture_output=True, text=True, check=True).stdout

    usage = {name: (int(used), int(stack)) for name, used, stack in
             re.findall(r"Function (\w+):\s+REG:(\d+) STACK:(\d+)", ask("-res-usage"))}
    registers = {name: used for name, (used, _) in usage.items()}
    kernels = [name for name in registers if any(row[0] in name for row in LOOPS)]
    listings = {text.split()[0]: text for text in ask("-sass", "-fun", ",".join(kernels)).split("Function : ")[1:]}
    print("%-34s %6s %6s %5s %5s" % ("kernel", "listed", "bound", "regs", "STL"))
    for part, elements, mark, at_least, bound, most_registers, most_stores in LOOPS:
        name = next((n for n in listings if part in n), None)
        found = [loop for loop in loops(listings[name]) if loop[mark] >= at_least] if name else []
        if not found:
            print("%-34s FAILED: no loop with %d %s" % (part, at_least, mark))
            failed = 1
            continue
        hot = min(found, key=lambda loop: sum(loop.values()))
        listed = sum(hot.values()) / elements
        bad = listed > bound or registers[name] > most_registers or hot["STL"] > most_stores
        failed = failed or bad
        print("%-34s %6.1f %6d %5s %5d%s" % (part, listed, bound, registers[name], hot["STL"], "  FAILED" if bad else ""))
    for part, most_registers, most_stack in SEARCHES:
        name = next((n for n in usage if part in n), None)
        bad = name is None or usage[name][0] > most_registers or usage[name][1] > most_stack
        failed = failed or bad
        print("%-34s registers and stack: %s%s" % (part, usage.get(name), "  FAILED" if bad else ""))
    return int(failed)


sys.exit(main())

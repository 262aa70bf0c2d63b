#!/usr/bin/env python3
"""make_commands.py PROGRAM - prints python/vcompress/_commands.py: a function for each command, whose options are typed keywords with
a line of help each, from the tables of options that "PROGRAM help --options" prints. A test fails while the file is old."""
import json
import keyword
import re
import subprocess
import sys

WIDTH = 160

# What a function takes before its options, and what runs it (vcompress/_run.py): write: one input, one output; ask: a report about
# inputs; make: an output that is an option.
COMMANDS = {
    "shrink": "write", "quantize": "write", "prune": "write", "run": "write_by", "dequantize": "write", "merge": "write", "convert": "write",
    "distill": "make", "logits": "make_of", "calibrate": "make_of",
    "index": "ask", "inspect": "ask", "graph": "ask", "evaluate": "ask", "sensitivity": "ask", "verify": "ask", "estimate": "ask", "fit": "ask",
    "plan": "ask", "diff": "ask_two", "gpus": "ask_none", "devices": "ask_none", "selftest": "ask_none"}
NOT_HERE = {"completion", "help"}  # of the terminal
OPERANDS = {"write": "input: Input, output: Optional[Path] = None", "write_by": "input: Input, output: Optional[Path] = None, recipe: Optional[Path] = None", "make": "output: Optional[Path] = None", "make_of": "input: Path, output: Path",
            "ask": "input: Input", "ask_two": "a: Path, b: Path", "ask_none": ""}
# Options of the terminal: the document is what is returned, progress has a keyword of its own.
TERMINAL = {"json", "help", "quiet", "verbose", "no-progress", "color", "progress-fd", "memory-summary", "porcelain", "csv"}
# What a result in memory has not: files, folders, and reports in files.
FILES = {"output", "output-dir", "emit", "force", "force-foreign", "format", "dry-run", "digest", "max-shard-size", "shard", "drop", "key", "void-as",
         "keep-names", "pre", "no-vocab", "mmproj", "strip", "html", "markdown", "deflate", "metadata", "remote"}
# Files that may be arrays by name.
ARRAYS = {"data", "eval", "labels", "eval-labels", "mask"}
TYPES = {"flag": "bool", "count": "int", "int": "int", "real": "float", "size": "Union[int, str]", "text": "Path", "value": "Values"}


def python_name(option):
    name = option.replace("-", "_")
    return "passes" if name == "pass" else name + "_" if keyword.iskeyword(name) else name


def parameter(option):
    """int8: bool = False"""
    name, kind = python_name(option["name"]), option["kind"]
    if kind == "flag":
        return f"{name}: bool = False"
    if kind == "word" and not any(":" in word for word in option["words"]):
        kind = "Literal[%s]" % ", ".join(json.dumps(word) for word in option["words"])
    elif option["name"] in ARRAYS:
        kind = "File"
    elif option["name"] == "pass":
        kind = "Sequence[str]"
    else:
        kind = "str" if kind == "text" and option["value"] not in ("FILE", "DIR") else TYPES.get(kind, "str")
    if option["optional"]:
        kind = f"Union[bool, {kind}]"
    return f"{name}: Optional[{kind}] = None"


def wrapped(first, parts, last):
    """first part, part, ...last in lines of at most WIDTH."""
    lines, indent = [first], " " * 8
    for i, part in enumerate(parts):
        piece = part + (", " if i + 1 < len(parts) else last)
        if len(lines[-1]) + len(piece.rstrip()) > WIDTH:
            lines[-1] = lines[-1].rstrip()
            lines.append(indent)
        lines[-1] += piece
    return "\n".join(lines)


def line_of(option):
    """The first clause of the help, with the words or the kind of the value before it."""
    text = re.match(r"(\([^)]*\)|[^;(])*", option["help"])[0].replace("\\", "\\\\").replace('"""', "'''").rstrip()
    words = "" if option["kind"] == "flag" else " (%s)" % option["value"].replace("\\", "\\\\")
    return f"    {python_name(option['name'])}{words}: {text}"


def function(command, name, operands, skip, body):
    options = [o for o in command["options"] if o["name"] not in skip and not (o["name"] == "bytes" and o["kind"] == "flag")]
    parts = ([operands] if operands else []) + ["*", "progress: Show = None"] + [parameter(o) for o in options]
    summary = command["summary"][0].upper() + command["summary"][1:]
    return (wrapped(f"def {name}(", parts, ") -> " + ("Compressed" if name == "compress" else "Report") + ":") + f'\n    """{summary}.\n\n'
            + f"    vcompress {command['command']} {command['usage']}\n\n".replace("\\", "\\\\") + "\n".join(map(line_of, options)) + f'\n    """\n    {body}\n')


def main():
    text = subprocess.run([sys.argv[1], "help", "--options"], capture_output=True, text=True, check=True).stdout
    commands = {c["command"]: c for c in json.loads(text)}
    assert set(commands) == set(COMMANDS) | NOT_HERE, set(commands) ^ (set(COMMANDS) | NOT_HERE)
    print('"""Every command as a function. Made by make_commands.py from the tables of options: not edited by hand.\n\n'
          'threads, max_memory and device say what a call may use; progress=False shows no bar, and a function is called with a Progress."""\n'
          "from __future__ import annotations\n\nfrom typing import Literal, Mapping, Optional, Sequence, Union\n\n"
          "from ._arrays import Weights\nfrom ._call import Report\nfrom ._run import Compressed, File, Input, Path, Show, Values, ask, in_memory, make, write\n")
    names = list(COMMANDS) + ["compress"]
    print(wrapped("__all__ = [", [json.dumps(name) for name in names], "]"))
    for name, kind in COMMANDS.items():
        own = {"output"} if kind in ("write", "write_by", "make", "make_of") else set()
        runner = {"write_by": "write", "make_of": "make", "ask_two": "ask", "ask_none": "ask"}.get(kind, kind)
        body = f'return {runner}("{name}", locals(){"" if commands[name]["json"] else ", document=False"})'
        print("\n\n" + function(commands[name], name, OPERANDS[kind], TERMINAL | own, body), end="")
    made = dict(commands["quantize"], summary="quantizes weights in memory, or runs passes over them (passes=[\"prune --sparsity 0.8\"]): arrays with the buffer "
                "protocol, tensors of torch, or a module. Tensors of torch give tensors of torch", usage="... --pass")
    operands = "arrays: Weights, passes: Optional[Sequence[str]] = None, metadata: Optional[Mapping[str, str]] = None"
    print("\n\n" + function(made, "compress", operands, TERMINAL | FILES, "return in_memory(locals())"), end="")


main()

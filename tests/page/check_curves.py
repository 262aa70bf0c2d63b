#!/usr/bin/env python3
"""check_curves.py DOCUMENT LOG - the steps in the document of a page of distill are steps of its --log, spread over the whole
run, with the figures of the log."""
import json, sys

with open(sys.argv[1]) as f:
    steps = json.load(f)["steps"]
with open(sys.argv[2]) as f:
    log = {line["step"]: line for line in map(json.loads, f) if "loss" in line}
assert 100 < len(steps) <= 512 or len(steps) == len(log), (len(steps), len(log))
assert steps[0]["step"] == min(log) and steps[-1]["step"] > 0.95 * max(log), (steps[0], steps[-1])
for step in steps:
    line = log[step["step"]]
    terms = [line[key] for key in sorted(line) if key.startswith("match.")]
    for key in ("loss", "lr", "sparsity"):
        assert step[key] == line.get(key), (key, step, line)
    assert sorted(step["matches"]) == sorted(terms), (step, line)

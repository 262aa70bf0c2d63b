#!/usr/bin/env python3
"""check_curves.py PAGE.html LOG - the lines of a page of distill go through the steps of its --log: every point of each
line, from the figures that stand beside it. Exit status 0 when all is right."""
import json, math, sys, xml.etree.ElementTree


def figure(text):
    return float(text.split(" ")[0].replace(",", "")) / (100 if "%" in text else 1)


def check_line(path, most, least, steps, values):
    """The height of every point says its value: on one of both scales all do, to the digits of a page."""
    points = [tuple(map(float, p.split(" "))) for p in path[1:].split("L")]
    assert 100 < len(points) <= 256 or len(points) == len(values), len(points)
    drawn = [values[round(x * steps / 1000) - 1] for x, _ in points]
    assert math.isclose(max(drawn), most, rel_tol=6e-3) and math.isclose(min(drawn), least, rel_tol=6e-3), (most, least)
    most, least = max(drawn), min(drawn)
    as_is = [100 * (most - v) / (most - least) for v in drawn]
    logarithm = [100 * math.log(most / v) / math.log(most / least) for v in drawn] if least > 0 else as_is
    assert any(max(abs(h - y) for h, (_, y) in zip(of, points)) < 0.006 for of in (as_is, logarithm))


root = xml.etree.ElementTree.parse(sys.argv[1]).getroot()
with open(sys.argv[2]) as f:
    log = [json.loads(line) for line in f]
log = [line for line in log if "loss" in line]
names = ["loss"] + sorted(k for k in log[0] if k.startswith("match.")) + [k for k in log[0] if k == "sparsity"]
lines = [e for e in root.iter("figure") if e.find("svg/path[@class='curve']") is not None]
assert len(lines) == len(names), (len(lines), names)
for name, line in zip(names, lines):
    ticks = [span.text for span in line.iter("span")]
    assert ticks[1].endswith(" at the lowest") and ticks[2] == "step %s" % format(len(log), ","), ticks
    check_line(line.find("svg/path").get("d"), figure(ticks[0]), figure(ticks[1]), len(log), [s[name] for s in log])

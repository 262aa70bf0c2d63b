#!/usr/bin/env python3
"""count_shapes.py ROOT [--most NESTED CALLS] [--objects LIST NM [--most-circles N]] [-v]: shapes of code that are hard to read, counted.

nested    statements with three or more conditional operators: who reads them keeps a table of cases in mind
calls     VC_CALL or VC_TRY whose argument is a conditional expression with a call in it: a step that hides its `if`
circles   groups of files of one room whose objects use each other's symbols, in a circle: none can be read alone

Prints the counts; with -v each place. With --most, exit status 1 where there are more: such numbers may only fall. Counted are the files that
count_lines.py counts; circles are those of the objects in LIST (one path a line), as NM sees them.
"""
import argparse
import collections
import os
import re
import subprocess
import sys

BLANKED = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
MACRO = re.compile(r"\bVC_(?:CALL|TRY)\s*\(")


def blanked(text):
    """The text with comments and strings as blanks, every character at its place."""
    return BLANKED.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def statements(text):
    """(start, end) of each statement: what ends in a semicolon or brace outside of parentheses"""
    depth = start = 0
    for match in re.finditer(r"[()\[\];{}]", text):
        char = match.group()
        depth += (char in "([") - (char in ")]")
        if char in ";{}" and depth <= 0:
            yield start, match.end()
            start = match.end()


def argument(text, start):
    """What stands between the parenthesis before start and its partner, with all that is in inner ones blanked, and without."""
    depth, at = 1, start
    outer = []
    while at < len(text) and depth > 0:
        depth += (text[at] in "([{") - (text[at] in ")]}")
        outer.append(text[at] if depth == 1 and text[at] not in ")]}" else " ")
        at += 1
    return "".join(outer), text[start:at]


def hides_call(statement):
    for match in MACRO.finditer(statement):
        outer, whole = argument(statement, match.end())
        at = outer.find("?")
        if at >= 0 and "(" in whole[at:]:
            return True
    return False


def sources(root):
    for folder, inner, names in os.walk(root):
        top = os.path.samefile(folder, root)
        inner[:] = sorted(i for i in inner if i[0] != "." and not (top and re.match(r"(tests|bench|build.*)$", i)))
        yield from sorted(os.path.relpath(os.path.join(folder, n), root) for n in names if re.search(r"\.(c|h|inc|cu|cuh)$", n))


def shapes(root):
    nested, calls = [], []
    for name in sources(root):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            text = blanked(file.read())
        for start, end in statements(text):
            statement = text[start:end]
            if statement.count("?") >= 3 or "VC_" in statement:
                place = "%s:%d" % (name, text.count("\n", 0, start + len(statement) - len(statement.lstrip())) + 1)
                if statement.count("?") >= 3:
                    nested.append(place)
                if hides_call(statement):
                    calls.append(place)
    return nested, calls


def symbols(paths, nm):
    """path -> (defined, used) symbols, of all objects by one process"""
    found = {path: (set(), set()) for path in paths}
    for line in subprocess.run([nm, "-g", "-A", *paths], capture_output=True, text=True, check=True).stdout.splitlines():
        path, entry = line.rsplit(":", 1)
        kind, name = entry.split()[-2:]
        found[path][kind in "Uw"].add(name)
    return found


def groups(edges):
    """Strongly connected components of two or more nodes (Tarjan's, without recursion)."""
    number, low, stack, on, found = {}, {}, [], set(), []
    for root in sorted(edges):
        if root in number:
            continue
        work = [(root, iter(sorted(edges[root])))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in number:
                    number[other] = low[other] = len(number)
                    stack.append(other)
                    on.add(other)
                    work.append((other, iter(sorted(edges[other]))))
                    break
                if other in on:
                    low[node] = min(low[node], number[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    group = []
                    while not group or group[-1] != node:
                        group.append(stack.pop())
                        on.discard(group[-1])
                    if len(group) > 1:
                        found.append(sorted(group))
    return found


def circles(listed, nm):
    rooms = collections.defaultdict(dict)
    with open(listed, encoding="utf-8") as file:
        for path, found in symbols(file.read().split(), nm).items():
            name = re.sub(r".*\.dir/", "", path)
            rooms[name.split("/")[0]][name] = found
    found = []
    for files in rooms.values():
        owner = {symbol: name for name, (defined, _) in files.items() for symbol in defined}
        found += groups({name: {owner[s] for s in used if owner.get(s, name) != name} for name, (_, used) in files.items()})
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("root")
    parser.add_argument("--most", nargs=2, type=int, default=[sys.maxsize] * 2)
    parser.add_argument("--objects", nargs=2)
    parser.add_argument("--most-circles", type=int, default=sys.maxsize)
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    nested, calls = shapes(options.root)
    counted = [("nested", nested, options.most[0]), ("calls", calls, options.most[1])]
    if options.objects:
        counted.append(("circles", [" ".join(group) for group in circles(*options.objects)], options.most_circles))
    for word, places, most in counted:
        print("%-8s %5d" % (word, len(places)) + ("" if most == sys.maxsize else " of at most %d" % most))
        for place in places if options.v or len(places) > most else []:
            print("    " + place)
    return any(len(places) > most for _, places, most in counted)


if __name__ == "__main__":
    sys.exit(main())

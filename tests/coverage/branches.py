"""Prints which branches were taken, from the .gcda files whose names come from standard input, each with a zero byte
behind it: branches.py ROOT FOLDER MISSING. Called by coverage.sh."""

import json
import os
import subprocess
import sys


def read(names, root, folder):
    """{source file: {line: [count of each branch]}} of the files below root/folder. A header is in many objects: the
    counts of its lines are added up."""
    files = {}
    for name in names:
        out = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout", name], check=True,
                             capture_output=True, cwd=os.path.dirname(name)).stdout
        for text in out.splitlines():
            for file in json.loads(text)["files"]:
                path = os.path.relpath(os.path.join(root, file["file"]), root)
                if not path.startswith(folder + "/"):
                    continue
                lines = files.setdefault(path, {})
                for line in file["lines"]:
                    counts = [b["count"] for b in line["branches"]]
                    old = lines.get(line["line_number"], [])
                    same = len(old) == len(counts)
                    lines[line["line_number"]] = [a + b for a, b in zip(old, counts)] if same else old + counts
    return files


def table(files):
    rows = []
    for path, lines in files.items():
        counts = [c for branches in lines.values() for c in branches]
        if counts:
            rows.append((sum(c != 0 for c in counts), len(counts), path))
    rows.sort(key=lambda row: (row[0] - row[1], row[2]))
    taken, n = sum(r[0] for r in rows), sum(r[1] for r in rows)
    for got, of, path in rows:
        print(f"{100 * got / of:6.1f} %  {of - got:4d} of {of:4d} not taken  {path}")
    print(f"{100 * taken / n:6.1f} %  {n - taken:4d} of {n:4d} not taken  all {len(rows)} files")


def missing(lines, root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read().splitlines()
    for number in sorted(lines):
        counts = lines[number]
        if 0 in counts:
            print(f"{number:5d}  {''.join('-' if c == 0 else '+' for c in counts):8s} {text[number - 1]}")


def main():
    root, folder, path = sys.argv[1:4]
    names = [n for n in sys.stdin.read().split("\0") if n]
    if not names:
        sys.exit("there is nothing to count: were the tests built and run?")
    files = read(names, root, folder)
    if path:
        missing(files[path], root, path)
    else:
        table(files)


main()

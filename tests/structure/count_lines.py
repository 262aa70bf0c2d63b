#!/usr/bin/env python3
"""count_lines.py [ROOT]: code lines of the source by room, and the share of comments.

A code line holds more than comments, blanks, braces and semicolons. Counted are *.c, *.h, *.inc, *.cu and *.cuh that git knows,
without tests/ and bench/. The share of comments is comment lines / (comment lines + code lines).
"""
import re
import subprocess
import sys

COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)


def count(text):
    """(code lines, comment lines) of one file"""
    comments = 0

    def blank(match):
        nonlocal comments
        if match.group(0).startswith('"'):  # a string may hold what looks like a comment
            return match.group(0)
        comments += match.group(0).count("\n") + 1
        return "\n" * match.group(0).count("\n")

    rest = COMMENT.sub(blank, text)
    return sum(bool(re.search(r"[^\s{};]", line)) for line in rest.split("\n")), comments


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    files = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    rooms = {}
    for name in files:
        if name.endswith((".c", ".h", ".inc", ".cu", ".cuh")) and not name.startswith(("tests/", "bench/")):
            with open(f"{root}/{name}", errors="replace") as file:
                code, comments = count(file.read())
            room = rooms.setdefault(name.split("/")[0], [0, 0, 0])
            room[0] += 1
            room[1] += code
            room[2] += comments
    rooms["all"] = [sum(values) for values in zip(*rooms.values())]
    print(f"{'room':12}{'files':>7}{'code lines':>12}{'comments':>10}")
    for name, (n, code, comments) in sorted(rooms.items(), key=lambda item: item[1][1]):
        print(f"{name:12}{n:7}{code:12,}{comments / (comments + code):10.1%}")


if __name__ == "__main__":
    main()

"""differences.py SECTION BEFORE AFTER EXPECTED - lists how two folders differ that compare.sh had filled by two programs.

Each folder holds numbered ones, one per group of commands: cmd.N is a command line, rc.N its exit status, out.N and err.N
what it printed; all else are files that the commands wrote. Everything is compared byte for byte, with two exceptions:

- a document of vcompress's own ("schema": "vcompress.report/1", say) is compared as JSON, without the members of IGNORED,
  which are different in every run, so that a difference names the member;
- times and peaks of memory in printed text are made equal (MEASURED), and so are the bytes that a sentence says are
  needed or cannot be had (MEMORY), where the two differ by less than a tenth.

EXPECTED has globs, one a line (# begins a comment): lines of the list that fit one are counted, not listed. Exit status 1
when a line is listed.
"""
import fnmatch
import json
import os
import re
import sys

IGNORED = {"tool", "seconds", "peak_pool_bytes", "peak_rss_bytes"}
# What the second program's documents may have in addition (compare.sh -m).
NEW = set(os.environ.get("COMPARE_NEW_MEMBERS", "").split())
MEASURED = [(re.compile(rb"\bin \d+(\.\d+)? (m?s|min)\b"), b"in TIME"), (re.compile(rb"peak [0-9.]+ [KMG]?i?B"), b"peak SIZE")]
MEMORY = re.compile(r"(needs at least|cannot allocate) (\d+) bytes")
MOST = 5  # differences of one file that are listed


def read(path):
    with open(path, "rb") as f:
        return f.read()


def same_memory(a, b):
    """b with the amounts of memory of a, where they are nearly the same."""
    theirs = [int(m.group(2)) for m in MEMORY.finditer(a)]
    ours = [int(m.group(2)) for m in MEMORY.finditer(b)]
    if len(theirs) != len(ours) or any(abs(x - y) * 10 >= max(x, y) for x, y in zip(theirs, ours)):
        return b
    amounts = iter(theirs)
    return MEMORY.sub(lambda m: "%s %d bytes" % (m.group(1), next(amounts)), b)


def document(data):
    """A JSON document of vcompress's own, or None."""
    if not data.lstrip()[:1] == b"{" or b'"vcompress.' not in data:
        return None
    try:
        d = json.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, ValueError):
        return None
    return d if isinstance(d, dict) and str(d.get("schema", "")).startswith("vcompress.") else None


def members(a, b, at=""):
    """The members in which two JSON values differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in list(a) + [k for k in b if k not in a]:
            where = (at + "." if at else "") + key
            if key in IGNORED:
                continue
            if key not in b:
                yield "%s is gone" % where
            elif key not in a:
                if key not in NEW:
                    yield "%s is new: %s" % (where, json.dumps(b[key])[:80])
            else:
                yield from members(a[key], b[key], where)
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            yield "%s has %d items, had %d" % (at, len(b), len(a))
        for k, (x, y) in enumerate(zip(a, b)):
            yield from members(x, y, "%s[%d]" % (at, k))
    elif isinstance(a, str) and isinstance(b, str) and a == same_memory(a, b):
        return
    elif a != b or type(a) is not type(b):
        yield "%s is %s, was %s" % (at, json.dumps(b)[:200], json.dumps(a)[:200])


def text_of(data):
    for pattern, instead in MEASURED:
        data = pattern.sub(instead, data)
    return data


def lines(a, b):
    """The lines in which two printed texts differ."""
    a, b = a.decode("utf-8", "replace"), b.decode("utf-8", "replace")
    a, b = a.splitlines(), same_memory(a, b).splitlines()
    for k in range(max(len(a), len(b))):
        x, y = a[k] if k < len(a) else None, b[k] if k < len(b) else None
        if x != y:
            yield "says %s, said %s" % tuple("nothing" if t is None else "'%s'" % t.strip()[:300] for t in (y, x))


def first_difference(a, b):
    size = "" if len(a) == len(b) else " (%d bytes, had %d)" % (len(b), len(a))
    k = next((k for k in range(min(len(a), len(b))) if a[k] != b[k]), min(len(a), len(b)))
    return "bytes differ from %d on%s" % (k, size)


def of_files(a, b, name):
    """How two files differ."""
    if a == b:
        return
    before, after = document(a), document(b)
    if before is not None and after is not None:
        yield from members(before, after)
        return
    if re.match(r"(out|err)\b", name) and b"\0" not in a + b:
        a, b = text_of(a), text_of(b)
        if a != b:
            yield from lines(a, b)
        return
    yield first_difference(a, b)


def tree(folder):
    """{path inside the folder: where it is, or "/" for a folder}"""
    found = {}
    for at, folders, names in os.walk(folder):
        inside = os.path.relpath(at, folder)
        found.update((os.path.normpath(os.path.join(inside, n)), "/") for n in folders)
        found.update((os.path.normpath(os.path.join(inside, n)), os.path.join(at, n)) for n in names)
    return found


def content(path):
    return read(path) if os.path.isfile(path) else b""  # what is no file, a pipe say, has no content


def step(before, after, n):
    """How one command differs: its status and what it printed."""
    for what, name in (("exit status", "rc.%s" % n), ("prints", "out.%s" % n), ("on stderr", "err.%s" % n)):
        a, b = (read(os.path.join(f, name)) for f in (before, after))
        if what == "exit status":
            if a != b:
                yield "exit status %s, was %s" % (b.decode().strip(), a.decode().strip())
        else:
            yield from ("%s: %s" % (what, d) for d in list(of_files(a, b, name))[:MOST])


def command_of(commands, name):
    """The command that a file is listed under: the first that mentions it, else the first of the group."""
    mention = [c for c in commands if name.split(os.sep)[0] in re.split("[ =,]", c)]
    return (mention or list(commands) or ["(no command)"])[0]


def group(before, after):
    """(command, difference) of one group of commands."""
    a, b = tree(before), tree(after)
    steps = sorted((int(n[4:]) for n in a if re.match(r"cmd\.\d+$", n)))
    commands = {n: read(a["cmd.%d" % n]).decode("utf-8", "replace").strip() for n in steps}
    if sorted(steps) != sorted(int(n[4:]) for n in b if re.match(r"cmd\.\d+$", n)):
        yield "; ".join(commands.values()), "not the same commands were run"
        steps = [n for n in steps if "cmd.%d" % n in b]
    for n in steps:
        for what in step(before, after, n):
            yield commands[n], what
    for name in sorted(set(a) | set(b)):
        if re.match(r"(cmd|rc|out|err)\.\d+$", name):
            continue
        if name not in a or name not in b:
            differences = ["was not there before" if name not in a else "is missing"]
        elif "/" in (a[name], b[name]):
            differences = [] if a[name] == b[name] else ["is a folder in one of them only"]
        else:
            differences = list(of_files(content(a[name]), content(b[name]), os.path.basename(name)))
        command = command_of(commands.values(), name)
        for what in differences[:MOST]:
            yield command, "%s: %s" % (name, what)
        if len(differences) > MOST:
            yield command, "%s: and %d more" % (name, len(differences) - MOST)


def main():
    section, before, after, expected = sys.argv[1:]
    patterns = [p for p in (re.sub(r"(^|\s)#.*", "", line.rstrip("\n")) for line in open(expected, encoding="utf-8")) if p]
    n_commands = n_listed = n_expected = 0
    for number in sorted(set(os.listdir(before)) | set(os.listdir(after)), key=lambda n: (len(n), n)):
        pair = [os.path.join(f, number) for f in (before, after)]
        if not all(os.path.isdir(f) for f in pair):
            print("%s: group %s: only one of the programs got there" % (section, number))
            n_listed += 1
            continue
        n_commands += sum(n.startswith("cmd.") for n in os.listdir(pair[0]))
        for command, what in group(*pair):
            line = "%s: %s: %s" % (section, command, what)
            if any(fnmatch.fnmatchcase(line, p) for p in patterns):
                n_expected += 1
            else:
                n_listed += 1
                print(line)
    if n_commands == 0:
        print("%s: no command was run" % section)
        n_listed += 1
    print("%s: %d commands, %d differences%s" %
          (section, n_commands, n_listed, ", and %d that were expected" % n_expected if n_expected else ""), flush=True)
    sys.exit(1 if n_listed else 0)


main()

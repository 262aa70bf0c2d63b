#!/usr/bin/env python3
"""make_unicode.py >formats/tokenizer/unicode_tables.inc: the tables of Unicode that tokenizers need.

Version 16.0.0, that of the regular expressions of tokenizers 0.23: pip install unicodedata2==16.0.0 regex. Categories, classes,
decompositions and letters are of unicodedata2; scripts and grapheme breaks, of which it has none, are of the module regex, of the
characters that are assigned in version 16.
"""
import sys

import regex
import unicodedata2 as unicodedata

WIDTH = 500
CATEGORIES = "Cn Cc Cf Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs".split()
# The interpreter's own letters are of version 14 or later (Python 3.11): those that came with 15 and 16.
SINCE_15 = {0x1C89: 0x1C8A, 0xA7CB: 0x264, 0xA7CC: 0xA7CD, 0xA7DA: 0xA7DB, 0xA7DC: 0x19B, **{c: c + 32 for c in range(0x10D50, 0x10D66)}}
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def array(kind, name, numbers, about):
    """a table, some to the line"""
    print(f"\n/* {about} */\nstatic const {kind} {name}[] = {{")
    line = "   "
    for number in numbers:
        text = f" {number}," if abs(number) < 10 else f" 0x{number:x}," if number > 0 else f" {number},"
        if len(line) + len(text) > WIDTH:
            print(line)
            line = "   "
        line += text
    print(line + "\n};")


def steps(value):
    """where a value of characters changes: c << 8 | value"""
    out, last = [], None
    for c in range(0x110000):
        now = value(c)
        if now != last:
            out.append(c << 8 | now)
            last = now
    return out


def categories():
    """steps of categories; where Lu and Ll take turns, one with bit 6 stands for them"""
    all_of, out, i = steps(lambda c: CATEGORIES.index(unicodedata.category(chr(c)))), [], 0
    while i < len(all_of):
        j = i
        while j + 1 < len(all_of) and all_of[j + 1] >> 8 == (all_of[j] >> 8) + 1 and {all_of[j] & 255, all_of[j + 1] & 255} == {5, 9}:
            j += 1
        out.append(all_of[i] | (64 if j > i + 1 else 0))
        i = j if j > i + 1 else i + 1
    return out


def lower_runs():
    """first << 8 | step, last, distance: characters whose lower case lies at the same distance"""
    moves = []
    for c in ALL:
        low = chr(c).lower()
        low = chr(SINCE_15[c]) if c in SINCE_15 else low
        if len(low) == 1 and low != chr(c):
            moves.append((c, ord(low) - c))
    runs = []
    for c, move in moves:
        run = runs[-1] if runs else None
        if run and run[3] == move and (c - run[1] == run[2] or (run[2] == 0 and c - run[1] in (1, 2))):
            run[2] = c - run[1]
            run[1] = c
        else:
            runs.append([c, c, 0, move])
    return [x for run in runs for x in (run[0] << 8 | (run[2] or 1), run[1], run[3] % (1 << 32))]


def parts_of(c):
    """whether it is of compatibility, and the characters that it is made of, one step; none"""
    words = unicodedata.decomposition(chr(c)).split()
    compat = bool(words) and words[0].startswith("<")
    return compat, [int(w, 16) for w in words[compat:]]


def decomposed():
    """runs, and the parts that they have: of a run that counts the last part goes up by one from character to character"""
    def stretch(group, i):
        j = i
        while j + 1 < len(group) and group[j + 1][:-1] == group[i][:-1] and group[j + 1][-1] == group[j][-1] + 1:
            j += 1
        return j + 1 - i
    runs, parts, c = [], [], 0
    while c < 0x110000:
        compat, first = parts_of(c)
        end = c
        while first and end < 0x110000 and (compat, len(first)) == (lambda k, p: (k, len(p)))(*parts_of(end)):
            end += 1
        group, i = [parts_of(k)[1] for k in range(c, end)], 0
        while i < len(group):
            n = stretch(group, i)
            counts = n >= 6
            if not counts:
                n = next((k for k in range(1, len(group) - i) if stretch(group, i + k) >= 6), len(group) - i)
            runs += [(c + i) << 8 | len(first) | compat << 5 | counts << 6, n << 16 | len(parts)]
            parts += sum(group[i:i + (1 if counts else n)], [])
            i += n
        c = max(end, c + 1)
    return runs, parts


def main():
    assert unicodedata.unidata_version == "16.0.0", unicodedata.unidata_version
    print("/* unicode_tables.inc - made by scripts/make_unicode.py of Unicode 16.0.0. Not to be edited. */")
    print("/* clang-format off */")
    print("#define VC_UNICODE_VERSION \"16.0.0\"")
    array("uint32_t", "category_steps", categories(),
          "From this character on (above 8 bits) they are of that category (vc_unicode_category); bit 6: Lu and Ll take turns.")
    array("uint32_t", "class_steps", steps(lambda c: unicodedata.combining(chr(c))), "The same for combining classes.")
    assigned = {c for c in ALL if unicodedata.category(chr(c)) != "Cn"}
    marks = {"extends": r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]", "prepends": r"\p{GCB=Prepend}", "han": r"\p{Han}"}
    flags = {}
    for bit, pattern in enumerate(marks.values()):
        match = regex.compile(pattern).match
        for c in assigned:
            if match(chr(c)):
                flags[c] = flags.get(c, 0) | 1 << bit
    array("uint32_t", "flag_steps", steps(lambda c: flags.get(c, 0)),
          "The same: 1 stays with the character before it, 2 with the one behind it (grapheme clusters), 4 is of the script Han.")
    runs, parts = decomposed()
    array("uint32_t", "decomposed", runs, "Characters that are made of others, one step: the first of a run << 8, how many parts each has, bit 5: of compatibility, bit 6: "
          "the parts are those of the first, and the last of them counts on; length of the run << 16, where its parts are. Hangul is computed.")
    array("uint32_t", "decomposed_to", parts, "The parts.")
    pairs = sorted((p, c) for k, p, c in ((*parts_of(c), c) for c in ALL) if not k and len(p) == 2 and unicodedata.normalize("NFC", chr(c)) == chr(c))
    array("uint32_t", "composed", [c for _, c in pairs], "What NFC makes of two characters, in the order of these.")
    array("uint32_t", "lower_runs", lower_runs(), "First << 8 and step, last, distance of the lower case, modulo 2^32.")


if __name__ == "__main__":
    sys.exit(main())

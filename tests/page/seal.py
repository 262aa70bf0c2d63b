#!/usr/bin/env python3
"""seal.py FOLDER [DRAWING.svg...] - the content security policy of pages allows the style and the scripts that are
part of the shell, by their SHA-256, and the styles of the drawings that pages embed. Writes the digests into
FOLDER/shell.html; check_page.py fails where they are old. After a change of page.css, a script or the style of a drawing:

    python3 tests/page/seal.py report/page graph.svg sensitivity.svg
"""
import base64, hashlib, pathlib, re, sys


def digest(data):
    return "'sha256-" + base64.b64encode(hashlib.sha256(data).digest()).decode() + "'"


def main(arguments):
    folder, *drawings = map(pathlib.Path, arguments)
    scripts = sorted(digest(path.read_bytes()) for path in folder.glob("*.js"))
    styles = [digest((folder / "page.css").read_bytes())]
    for drawing in drawings:
        styles += [digest(style) for style in re.findall(rb"<style>(.*?)</style>", drawing.read_bytes(), re.S)]
    shell = folder / "shell.html"
    text = shell.read_text()
    if not drawings: # those of the drawings stay
        styles += re.search(r"style-src ([^;]*)", text).group(1).split()[1:]
    policy = f"default-src 'none'; style-src {' '.join(styles)}; script-src {' '.join(scripts)}; base-uri 'none'; form-action 'none'"
    sealed = re.sub(r'(Content-Security-Policy" content=")[^"]*', lambda found: found.group(1) + policy, text)
    shell.write_text(sealed)


if __name__ == "__main__":
    main(sys.argv[1:])

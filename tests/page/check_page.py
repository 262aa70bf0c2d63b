#!/usr/bin/env python3
"""check_page.py [--document OUT.json] PAGE.html... - a page of --html is whole: its document is JSON, the content security
policy allows each style and script that is there and nothing else, no element refers to anything outside, no markup comes
from a name, and without scripts there are tables. --document writes the document of the only page."""
import base64, hashlib, html.parser, json, pathlib, re, sys


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.wrong, self.inside, self.policy, self.title, self.document = [], None, "", "", None
        self.scripts, self.styles, self.cells, self.noscript = [], [], 0, False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.noscript = self.noscript or tag == "noscript"
        self.cells += self.noscript and tag == "td"
        for name, value in attributes.items():
            if name.startswith("on") or name in ("src", "href", "srcset", "data", "action", "style", "xlink:href"):
                self.wrong.append(f"<{tag} {name}={value!r}>")
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        if tag in ("script", "style", "title"):
            self.inside = attributes.get("id") if attributes.get("type") == "application/json" else tag
            (self.scripts if self.inside == "script" else self.styles if tag == "style" else []).append("")

    def handle_endtag(self, tag):
        self.noscript = self.noscript and tag != "noscript"
        self.inside = None if tag in ("script", "style", "title") else self.inside

    def handle_data(self, data):
        if self.inside == "document":
            self.document = (self.document or "") + data
        elif self.inside == "title":
            self.title += data
        elif self.inside in ("script", "style"):
            (self.scripts if self.inside == "script" else self.styles)[-1] += data


def check(path):
    page = Page(pathlib.Path(path).read_text(encoding="utf-8"))
    wrong = page.wrong
    try:
        json.loads(page.document or "")
    except ValueError as error:
        wrong.append(f"the document is no JSON: {error}")
    allowed = {kind: re.search(kind + r"-src ([^;]*)", page.policy).group(1).split() for kind in ("script", "style")}
    if "default-src 'none'" not in page.policy:
        wrong.append("the policy allows more than what is on the page")
    for kind, texts in (("script", page.scripts), ("style", page.styles)):
        for text in texts:
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            if f"'sha256-{digest}'" not in allowed[kind]:
                wrong.append(f"the policy does not allow the {kind} {text[:60]!r}: run tests/page/seal.py")
    if len(page.scripts) < 5 or page.cells < 5 or not page.title.strip():
        wrong.append(f"{len(page.scripts)} scripts, {page.cells} cells without scripts, title {page.title!r}")
    return wrong, page.document


def main(arguments):
    to = arguments.pop(1) if arguments[:1] == ["--document"] else None
    failed = 0
    for path in arguments[1 if to else 0:]:
        wrong, document = check(path)
        if to:
            pathlib.Path(to).write_text(document)
        for line in wrong:
            print(f"{path}: {line}")
        failed += len(wrong)
    return 1 if failed or not arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

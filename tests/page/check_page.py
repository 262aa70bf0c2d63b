#!/usr/bin/env python3
"""check_page.py PAGE.html... - a page of --html is well-formed, and refers to nothing outside.

Read twice with Python's own parsers: as XML, where every element has its end, every attribute its value and every
entity is one of XML's; and as HTML, for which elements and attributes there may be. Exit status 0 when all is right."""
import html.parser, re, sys, xml.etree.ElementTree

ELEMENTS = set("""html head meta title style body header main footer section h1 h2 h3 p span b small code dl div dt dd ul
li a br table thead tbody tr th td details summary figure figcaption svg path rect title g line text""".split())
ATTRIBUTES = set("""lang charset name content class role tabindex scope viewbox preserveaspectratio x y width height d fill
x1 x2 y1 y2 style id transform text-anchor""".split())
STYLE = re.compile(r"(flex:0 0 \d+(\.\d+)?%|width:\d+(\.\d+)?%)\Z")


class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=False)
        self.wrong, self.open, self.ids, self.headings, self.names = [], [], set(), [], 0

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.element(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        self.element(tag, attrs)
        if tag not in ("meta", "br") and "svg" not in self.open:
            self.wrong.append(f"<{tag}/>: HTML does not end it there")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> ends another element")

    def element(self, tag, attrs):
        if tag not in ELEMENTS:
            self.wrong.append(f"<{tag}>: no element of pages")
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        given = dict(attrs)
        if len(given) != len(attrs):
            self.wrong.append(f"<{tag}>: an attribute twice")
        for name, value in attrs:
            if name not in ATTRIBUTES and not name.startswith("aria-"):
                self.wrong.append(f"<{tag} {name}>: no attribute of pages")
            if name == "style" and not STYLE.match(value):
                self.wrong.append(f"style {value}")
            if name == "id" and value in self.ids:
                self.wrong.append(f"id {value} twice")
            self.ids.add(value if name == "id" else None)
        if tag == "svg" and not (given.get("role") == "img" and given.get("aria-label")) and \
                given.get("aria-hidden") != "true":
            self.wrong.append("an svg that has no name and is not hidden")
        if given.get("class") == "scroll" and not given.get("aria-label"):
            self.wrong.append("a box that scrolls and has no name")


def check(path):
    text = open(path, encoding="utf-8", newline="").read()
    reader = Reader()
    wrong = reader.wrong
    if not text.startswith("<!DOCTYPE html>\n<!-- vcompress "):
        wrong.append("does not begin as pages do")
    root = xml.etree.ElementTree.fromstring(text)
    if root.tag != "html" or [e.tag for e in root] != ["head", "body"] or root.get("lang") != "en":
        wrong.append("no html with a head and a body")
    reader.feed(text)
    reader.close()
    if reader.open:
        wrong.append(f"not ended: {reader.open}")
    if reader.headings[:1] != [1] or reader.headings.count(1) != 1 or \
            any(b > a + 1 for a, b in zip(reader.headings, reader.headings[1:])):
        wrong.append(f"headings {reader.headings}")
    style = root.find("head/style").text
    if style.count("{") != style.count("}") or re.search(r"url\(|@import|expression|</", style):
        wrong.append("the style refers to something, or is not balanced")
    if "prefers-color-scheme:dark" not in style or "@media print" not in style:
        wrong.append("no style for dark, or for paper")
    used = {c for e in root.iter() for c in (e.get("class") or "").split()}
    missing = sorted(c for c in used if not re.search(r"\." + re.escape(c) + r"(?![\w-])", style))
    if missing:
        wrong.append(f"classes without a style: {missing}")
    if re.search(r"(?i)https?:|//[a-z]|<script|javascript:|data:", re.sub(r"(?s)<footer>.*</footer>", "", text)):
        wrong.append("refers to something outside")
    if re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]", text):
        wrong.append("a control character")
    return wrong


if __name__ == "__main__":
    failed = False
    for path in sys.argv[1:]:
        try:
            wrong = check(path)
        except (xml.etree.ElementTree.ParseError, UnicodeDecodeError) as e:
            wrong = [f"not well-formed: {e}"]
        for line in wrong:
            print(f"{path}: {line}")
        failed = failed or bool(wrong)
    sys.exit(1 if failed or len(sys.argv) < 2 else 0)

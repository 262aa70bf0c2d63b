#!/usr/bin/env python3
"""test_browser.py [--out DIR] [--pictures DIR] PROGRAM ROOT - the pages of all commands in a real browser: what they say on the
console and ask for, what is wider than the window, labels, contrast, search, globs, sorting, groups, keys, print, names that would
be markup, ten thousand tensors, and the plain tables without scripts.

--out: pictures of all pages at three widths go there. --pictures: the pictures of docs. Without a browser the test is skipped (77).
"""
import argparse, base64, json, pathlib, random, re, struct, subprocess, sys, tempfile, zipfile

import browser as browsers

ROWS = 400 # at most of ten thousand tensors are in the page at once

# What reaches beyond the window, but for what lies in a box that scrolls or is drawn.
TOO_WIDE = """(() => {
  const wide = document.documentElement.clientWidth, found = [];
  if (document.documentElement.scrollWidth > wide) found.push('the page: ' + document.documentElement.scrollWidth);
  for (const e of document.querySelectorAll('body *')) {
    const box = e.getBoundingClientRect();
    if (!e.closest('.scroll') && !e.closest('svg') && (box.right > wide + 1 || box.left < -1) && found.length < 5)
      found.push(e.tagName + '.' + e.className + ' ' + Math.round(box.left) + '..' + Math.round(box.right));
  }
  return found.join('; ');
})()"""

# Drawings, fields, buttons and tables without a name; order of headings.
LABELS = """(() => {
  const found = [], say = (e, what) => found.length < 5 && found.push(what + ': ' + e.outerHTML.slice(0, 120));
  for (const e of document.querySelectorAll('svg, [role=img]')) if (!e.closest('[aria-label]')) say(e, 'no label');
  for (const e of document.querySelectorAll('input[type=search]')) if (!e.getAttribute('aria-label')) say(e, 'no label');
  for (const e of document.querySelectorAll('input[type=checkbox]')) if (!e.closest('label')) say(e, 'no label');
  for (const e of document.querySelectorAll('button, summary, a')) if (!e.hidden && !e.textContent.trim()) say(e, 'no text');
  for (const e of document.querySelectorAll('table')) {
    if (!e.closest('[aria-label]')) say(e, 'no label');
    for (const row of e.querySelectorAll('tbody tr')) if (!row.querySelector('th[scope=row]')) { say(row, 'no head'); break; }
  }
  for (const e of document.querySelectorAll('.scroll')) if (e.tabIndex !== 0) say(e, 'no key reaches it');
  if (document.querySelectorAll('h1').length !== 1) found.push('headings');
  for (const e of document.querySelectorAll('.drawing')) if (!e.querySelector('svg path[d], svg circle, svg rect')) say(e, 'nothing is drawn');
  return found.join('; ');
})()"""

# Text against what lies behind it, as WCAG 2 counts: 4.5, and 3 for large text.
CONTRAST = """(() => {
  const found = new Map(), parse = text => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 || n[3] > 0.9 ? n : null; };
  const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => { const x = light(a), y = light(b); return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c) return c; } return [255, 255, 255]; };
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('svg, script, style, noscript') || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), large = parseFloat(style.fontSize) >= 24;
    const r = ratio(parse(style.color), behind(e));
    if (r < (large ? 3 : 4.5)) found.set(e.tagName + '.' + e.className, e.textContent.trim().slice(0, 30) + ' ' + r.toFixed(2));
  }
  for (const e of document.querySelectorAll('svg text')) {
    const look = [...e.classList].find(name => name.startsWith('t-'));
    const cell = look && e.closest('svg').querySelector('path.' + look.slice(2));
    const r = ratio(parse(getComputedStyle(e).fill), cell ? parse(getComputedStyle(cell).fill) : behind(e.closest('section')));
    if (!e.closest('.said') && r < 4.5) found.set('text.' + e.getAttribute('class'), r.toFixed(2));
  }
  return [...found].map(one => one.join(' ')).join('; ');
})()"""

# Every explorer of the page: what search, globs, sorting and groups leave in it.
EXPLORE = """(() => {
  const found = [];
  for (const box of document.querySelectorAll('.explorer')) {
    const input = box.querySelector('input[type=search]'), told = box.querySelector('.told'), label = input.getAttribute('aria-label');
    const names = () => [...box.querySelectorAll('tbody > tr > th')].map(e => e.querySelector('.name').textContent);
    const type = text => { input.value = text; input.dispatchEvent(new Event('input')); };
    const together = box.querySelector('.tools input[type=checkbox]');
    const n = Number(told.textContent.replace(/,/g, '').split(' ')[0]);
    if (together && together.checked) {
      const open = box.querySelector('button.open'), rows = names().length;
      open.click();
      const inside = box.querySelectorAll('tr.inside').length;
      if (inside < 2 || names().length !== rows + inside) found.push(label + ': a group does not open');
      if (box.querySelector('button.open[aria-expanded=true]') !== document.activeElement) found.push(label + ': an opened group loses the focus');
      box.querySelector('button.open[aria-expanded=true]').click();
      if (names().length !== rows) found.push(label + ': a group does not close');
    }
    if (together && together.checked) together.click();
    const all = names();
    if (n <= 150 && all.length !== n) found.push(label + ': ' + all.length + ' of ' + n);
    const part = (all.slice(all.length / 2).find(name => !/[*?[]/.test(name)) || all[0]).slice(-6).toLowerCase();
    type(part.toUpperCase());
    if (!names().length || names().some(name => !name.toLowerCase().includes(part))) found.push(label + ': search for ' + part);
    type('*' + all[0].slice(1).replace(/[*?[]/g, '?'));
    if (!names().includes(all[0]) || names().some(name => !name.endsWith(all[0].slice(1)))) found.push(label + ': glob *' + all[0].slice(1));
    type('no such name');
    if (names().length || !/^0 of/.test(told.textContent)) found.push(label + ': finds what is not there');
    type('');
    [...box.querySelectorAll('thead th')].forEach((head, k) => {
      const button = head.querySelector('button'), cells = () => [...box.querySelectorAll(`tbody > tr > :nth-child(${k + 1})`)].map(e => e.textContent);
      const before = head.getAttribute('aria-sort');
      button.click();
      const once = cells(), how = head.getAttribute('aria-sort');
      button.click();
      const twice = cells();
      button.click();
      if (how === 'none' || head.getAttribute('aria-sort') !== before) found.push(label + ': aria-sort of ' + head.textContent);
      const figure = text => (text.includes('short') ? -1 : 1) * parseFloat(text.replace(/,/g, '')) * ({'KiB': 2 ** 10, 'MiB': 2 ** 20, 'GiB': 2 ** 30, 'K': 1e3, 'M': 1e6, 'G': 1e9}[(text.match(/[KMG](iB)?/) || [''])[0]] || 1);
      const values = list => list.map(figure).filter(x => !Number.isNaN(x));
      const rising = list => list.every((x, i) => i === 0 || x >= list[i - 1]), falling = list => rising([...list].reverse());
      if (head.className === 'n' && n <= 150 && !(falling(values(once)) && rising(values(twice)))) found.push(label + ': order of ' + head.textContent + ' ' + values(once).slice(0, 6));
    });
    if (names().slice(0, 20).join() !== all.slice(0, 20).join()) found.push(label + ': the first order is lost');
  }
  return found.join('; ');
})()"""

# What is there once the page gets ready to be printed: all rows, all groups, all details.
PRINTED = """(() => {
  dispatchEvent(new Event('beforeprint'));
  const found = [];
  for (const box of document.querySelectorAll('.explorer')) {
    const n = Number(box.querySelector('.told').textContent.replace(/,/g, '').split(' ')[0]);
    const rows = box.querySelectorAll('tbody tr').length - box.querySelectorAll('button.open').length;
    if (rows !== n) found.push(rows + ' of ' + n + ' rows');
  }
  if (document.querySelector('details:not([open])')) found.push('closed details');
  dispatchEvent(new Event('afterprint'));
  return found.join('; ');
})()"""


# Ten thousand tensors: groups and lists of any size open at once, with the rows near the window alone; what is printed says how much is not.
VIRTUAL = """(async () => {
  const found = [], box = document.querySelector('.explorer'), rows = () => box.querySelectorAll('tbody tr:not(.gap)').length;
  const settled = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  box.querySelector('button.open').click();
  if (box.querySelectorAll('tr.inside').length !== 250) found.push('a group of 250 shows ' + box.querySelectorAll('tr.inside').length);
  const inside = [...box.querySelectorAll('tr.inside .name')].map(e => Number(e.textContent.match(/[0-9]+/)[0]));
  if (inside.some((n, i) => n !== i)) found.push('layers are not in number order: ' + inside.slice(0, 5));
  box.querySelector('.tools input[type=checkbox]').click();
  if (rows() > ROWS) found.push(rows() + ' rows of 10,000 are there at once');
  for (const part of [0.5, 1]) {
    for (let again = 0; again < 3; again++) { // as a hand does, since rows that were not there yet may be higher
      scrollTo(0, box.getBoundingClientRect().top + scrollY + part * box.querySelector('tbody').offsetHeight - innerHeight * 0.6);
      await settled();
    }
    const seen = [...box.querySelectorAll('tbody tr:not(.gap)')].filter(row => { const r = row.getBoundingClientRect(); return r.bottom > 0 && r.top < innerHeight; });
    if (seen.length < 5) found.push('nothing to see at ' + part);
  }
  if (box.querySelector('tbody').lastChild.className === 'gap') found.push('the last row is not at the end');
  scrollTo(0, 0);
  dispatchEvent(new Event('beforeprint'));
  if (rows() !== 1000 || !/^9,000 of 10,000 rows are not printed/.test(box.lastChild.textContent) || box.lastChild.hidden) found.push('printed ' + rows() + ' ' + box.lastChild.textContent);
  dispatchEvent(new Event('afterprint'));
  if (!box.lastChild.hidden) found.push('the line for the printer stays');
  return found.join('; ');
})()"""

# The tensor that lost most is at the top, and blocks of the map are in their order.
WORST_FIRST = """(() => {
  const found = [], box = [...document.querySelectorAll('.explorer')].find(one => one.querySelector('[aria-label=tensors]'));
  const figures = [...box.querySelectorAll('tbody tr')].map(row => parseFloat(row.children[6].textContent)).filter(x => !Number.isNaN(x));
  if (figures.length < 5 || figures.some((x, i) => i > 0 && x < figures[i - 1])) found.push('SQNR ' + figures.slice(0, 6));
  const blocks = [...document.querySelectorAll('svg text.block')].map(e => e.textContent.match(/layers\\.([0-9]+)/)).filter(Boolean).map(m => Number(m[1]));
  if (blocks.length < 10 || blocks.some((n, i) => n !== i)) found.push('blocks ' + blocks);
  return found.join('; ');
})()"""

# No axis says the same at two places.
TICKS = """(() => {
  const found = [];
  for (const picture of document.querySelectorAll('.drawing svg')) {
    const all = [...picture.querySelectorAll('text.tick[text-anchor=end]')].filter(e => Number(e.getAttribute('x')) === 51).map(e => e.textContent);
    if (new Set(all).size !== all.length) found.push(picture.getAttribute('aria-label') + ': ' + all);
  }
  return found.join('; ');
})()"""

# Texts of a drawing that lie on another or reach out of it, and labels of a map of tensors that are wider than their cells.
TEXTS = """(() => {
  const found = [], say = what => found.length < 5 && found.push(what);
  for (const picture of document.querySelectorAll('.drawing svg')) {
    const all = [...picture.querySelectorAll('text')].filter(e => e.textContent.trim()).map(e => ({e, said: e.textContent, box: e.getBoundingClientRect()}));
    const frame = picture.getBoundingClientRect(), scale = frame.width / picture.viewBox.baseVal.width;
    const cells = new Map([...picture.querySelectorAll('path.cell')].flatMap(e => [...e.getAttribute('d').matchAll(/M([\\d.]+) ([\\d.]+)h([\\d.]+)/g)].map(m => [m[1] + ' ' + m[2], Number(m[3])])));
    all.forEach(({e, said, box}, i) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1) say('leaves the drawing: ' + said);
      if (e.classList.contains('label')) {
        const [x, y] = ['x', 'y'].map((name, k) => (Number(e.getAttribute(name)) - [4, 13][k]).toFixed(1)), wide = cells.get(x + ' ' + y);
        if (!(box.width / scale + 4 <= wide + 1)) say('wider than its cell: ' + said);
      }
      for (const {said: other, box: b} of all.slice(i + 1))
        if (Math.min(box.right, b.right) - Math.max(box.left, b.left) > 1.5 && Math.min(box.bottom, b.bottom) - Math.max(box.top, b.top) > 2.5) say(said + ' lies on ' + other);
    });
  }
  return found.join('; ');
})()"""


def safetensors(path, tensors):
    head, at = {}, 0
    for name, rows, columns in tensors:
        head[name] = {"dtype": "F32", "shape": [rows, columns], "data_offsets": [at, at + 4 * rows * columns]}
        at += 4 * rows * columns
    text = json.dumps(head).encode()
    rng = random.Random(1)
    values = struct.pack("<4096f", *(rng.gauss(0, 1) for _ in range(4096)))
    path.write_bytes(struct.pack("<Q", len(text)) + text + (values * (at // len(values) + 1))[:at])


def npz(path, arrays):
    """f32 arrays by name: (values, shape)."""
    with zipfile.ZipFile(path, "w") as out:
        for name, (values, shape) in arrays.items():
            head = repr({"descr": "<f4", "fortran_order": False, "shape": shape}).ljust(117) + "\n"
            out.writestr(name + ".npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}f", *values))


HOSTILE = ("<script>window.hacked=1</script>&\"'", "</script><img src=x onerror=window.hacked=1>", "]]>-->\u202egnp.w", "a\tb\u2028c", "<b>\u00e9</b>",
           "javascript:window.hacked=1", "x" * 300)


def make_pages(program, root, folder):
    """A page of every kind of document, by name."""
    config, digits = root / "tests/graph/goldens/llama/config.json", root / "examples/digits"

    def run(*arguments, statuses=(0,)):
        done = subprocess.run([program, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=900)
        if done.returncode not in statuses:
            raise SystemExit(f"{arguments}: {done.returncode} {done.stderr}")

    subprocess.run([sys.executable, root / "tests/page/demo.py", "decoder.npz"], cwd=folder, check=True)
    safetensors(folder / "hostile.safetensors", [(name, 64, 64) for name in HOSTILE])
    safetensors(folder / "many.safetensors", [(f"layers.{i // 40}.block.{i % 40 // 8}.part_{'abcdefgh'[i % 8]}.weight", 8 + i % 5 * 4, 32) for i in range(10000)])
    run("quantize", "--int8", "decoder.npz", "-q", "--html", "quantize.html")
    run("prune", "--sparsity", "0.6", "decoder.npz", "-o", "pruned.npz", "-q", "--html", "prune.html")
    run("inspect", "--stats", "decoder.npz", "-q", "--html", "inspect.html")
    run("sensitivity", "decoder.npz", "-q", "--html", "sensitivity.html")
    run("diff", "decoder.npz", "decoder.int8.npz", "--min-sqnr", "20", "-q", "--html", "diff.html")
    run("graph", config, "-q", "--html", "graph.html")
    many = json.loads(config.read_text())
    many["num_hidden_layers"] = 170
    (folder / "deep").mkdir()
    (folder / "deep/config.json").write_text(json.dumps(many))
    run("graph", "deep", "-q", "--html", "network.html")
    run("estimate", config, "--mode", "train", "--optimizer", "adamw", "--amp", "autocast", "--batch", "8", "-q", "--html", "estimate.html")
    run("fit", config, "--gpu", "RTX 4060", "--batch", "64", "-q", "--html", "fit.html")
    run("fit", config, "--memory", "64MiB", "-q", "--html", "fit-no.html", statuses=(1,))
    run("fit", config, "--all-gpus", "--batch", "100000000", "-q", "--html", "fit-none.html", statuses=(1,))
    run("verify", "decoder.int8.npz", "--against", "decoder.npz", "-q", "--html", "verify.html")
    run("plan", config, "--gpu", "RTX 4060", "--mode", "train", "--batch", "4096", "-q", "--html", "plan.html", statuses=(0, 1))
    run("distill", "--teacher", digits / "digits.npz", "--student", digits / "digits.npz", "--graph", digits / "digits.layers.txt", "--sparsity", "0.9",
        "--steps", "20", "--match", "conv1=conv1:mse", "--match", "conv2=conv2:attention:0.5", "--data", digits / "images.npz", "--array",
        "test_images=train_images", "--eval", digits / "images.npz", "--eval-array", "y=test_labels", "-q", "-o", "recovered.npz", "--html", "distill.html")
    rng = random.Random(2)
    draw = lambda n: [rng.gauss(0, 0.5) for _ in range(n)]  # noqa: E731
    npz(folder / "rows.npz", {"x": (draw(96 * 6), (96, 6)), "y": (draw(96 * 2), (96, 2))})
    npz(folder / "small_net.npz", {"a.weight": (draw(48), (8, 6)), "a.bias": (draw(8), (8,)), "b.weight": (draw(16), (2, 8)), "b.bias": (draw(2), (2,))})
    (folder / "net.txt").write_text("input x [batch, 6]\nlinear a 8\nrelu\nlinear b 2\n")
    run("distill", "--student", "small_net.npz", "--graph", "net.txt", "--data", "rows.npz", "--eval", "rows.npz", "--alpha", "0", "--steps", "9", "--eval-every", "3",
        "-q", "-o", "fitted.npz", "--html", "regression.html")
    (folder / "two.onnxtxt").write_text('<ir_version: 8, opset_import: ["" : 21], metadata_props: ["vcompress.parameter:a" : "a", "vcompress.parameter:b" : "b"]>\n'
                                        "g (float[batch, 6] x, float[6, 3] a, float[6, 2] b) => (float[batch, 3] kind, float[batch, 2] price) { kind = MatMul (x, a) price = MatMul (x, b) }")
    npz(folder / "two.npz", {"a": (draw(18), (6, 3)), "b": (draw(12), (6, 2))})
    npz(folder / "two_rows.npz", {"x": (draw(96 * 6), (96, 6)), "kind": ([k % 3 for k in range(96)], (96,)), "price": (draw(96 * 2), (96, 2))})
    two = "--graph", "two.onnxtxt", "--data", "two_rows.npz", "--task", "kind=classes", "--task", "price=regression", "--steps", "4", "-q"
    run("distill", "--student", "two.npz", "--eval", "two_rows.npz", "--alpha", "0", *two, "-o", "two_fitted.npz", "--html", "two.html")
    run("shrink", "--max-loss", "0.9", *two, "-o", "two_small.npz", "two.npz", "--html", "shrink-two.html")
    run("shrink", "--ratio", "3", "decoder.npz", "-o", "small.npz", "-q", "--html", "shrink.html")
    run("shrink", "--ratio", "40", "--steps", "12", "--graph", digits / "digits.layers.txt", "--data", digits / "images.npz", "--array",
        "test_images=train_images", "-q", "-o", "tiny.npz", digits / "digits.npz", "--html", "shrink-data.html")
    for group in (32, 64):
        run("quantize", "--int8", "--granularity", f"group:{group}", "decoder.npz", "-f", "-q", f"--json={group}.json")
    run("diff", "32.json", "64.json", "-q", "--html", "changes.html", statuses=(1,))
    run("sensitivity", "--graph", digits / "digits.layers.txt", "--data", digits / "images.npz", "--rows", "2", digits / "digits.npz", "-q", "--html", "outputs.html")
    run("quantize", "--int8", "--min-elements", "0", "hostile.safetensors", "--layout", "plain", "-o", "h.safetensors", "-q", "--html", "hostile.html")
    run("quantize", "--int8", "--min-elements", "0", "many.safetensors", "--layout", "plain", "-o", "m.safetensors", "-q", "--html", "many.html")
    return sorted(folder.glob("*.html"))


class Test:
    def __init__(self, browser, out):
        self.browser, self.out, self.wrong, self.name = browser, out, [], ""

    def expect(self, found, what=""):
        """Nothing was found."""
        if found:
            self.wrong.append(f"{self.name}: {what}{': ' if what else ''}{found}")

    def quiet(self, page):
        for event in self.browser.events:
            kind, params = event.get("method"), event.get("params", {})
            if kind in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                self.expect(json.dumps(params)[:400], "console")
            if kind == "Network.requestWillBeSent" and params["request"]["url"] != page.resolve().as_uri():
                self.expect(params["request"]["url"][:200], "asks for")

    def look(self, page):
        """Opens the page, and leaves it at 1280."""
        self.browser.size(390)
        self.browser.open(page)
        for width, schemes in ((390, ["light"]), (1920, ["light"]), (1280, ["dark", "light"])):
            for scheme in schemes:
                self.name = f"{page.stem} {width} {scheme}"
                self.browser.size(width, scheme)
                self.browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                self.expect(self.browser.run(TOO_WIDE), "wider than the window")
                self.expect(self.browser.run(TEXTS), "texts")
                if width == 1280:
                    self.expect(self.browser.run(CONTRAST), "contrast")
                if self.out:
                    height = self.browser.call("Page.getLayoutMetrics")["cssContentSize"]["height"]
                    self.browser.picture(self.out / f"{page.stem}.{width}.{scheme}.png", width, min(height, 8000))
        self.expect(self.browser.run(LABELS), "labels")
        if page.stem != "many":
            self.expect(self.browser.run(TICKS), "ticks")

    def use(self, page):
        """The page that is open."""
        self.name = page.stem
        self.expect(self.browser.run(EXPLORE), "explorer")
        self.expect(self.browser.run(PRINTED), "print")
        self.quiet(page)

    def headlines(self, by_name):
        """An answer looks like yes or no, and the two differ."""
        colours = {}
        for name, look in (("fit", "yes"), ("fit-no", "no"), ("fit-none", "no"), ("verify", "yes"), ("changes", "")):
            self.name = name + " headline"
            self.browser.open(by_name[name])
            words = self.browser.run("document.querySelector('.big').className").split()[1:]
            self.expect("" if words == look.split() else str(words), "look")
            colours.setdefault(look, set()).add(self.browser.run("getComputedStyle(document.querySelector('.big')).color"))
        self.expect("" if len(colours["yes"]) == len(colours["no"]) == 1 and colours["yes"] != colours["no"] else str(colours), "colours")

    def keys(self, page):
        """'/' goes to the search, and what is typed searches; Enter opens a group."""
        self.name = page.stem + " keys"
        self.browser.open(page)

        def press(key, text=None):
            for kind in ("keyDown", "keyUp"):
                self.browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, **({"text": text} if text and kind == "keyDown" else {}))

        press("/", "/")
        for letter in "down_":
            press(letter, letter)
        told = self.browser.run("document.querySelector('.told').textContent")
        self.expect("" if told == "12 of 98" else told, "typed")
        self.browser.run("document.querySelector('button.open').focus()")
        press("Enter", "\r")
        self.expect("" if self.browser.run("document.querySelectorAll('tr.inside').length") == 12 else "closed", "Enter")
        self.browser.run("document.querySelector('button.copy').click()")
        self.quiet(page)

    def hostile(self, page):
        self.name = page.stem
        self.browser.open(page)
        self.expect(self.browser.run("window.hacked"), "a name ran")
        self.expect("" if self.browser.run("document.images.length") == 0 else "an image", "markup")
        text = self.browser.run("document.querySelector('.explorer tbody').textContent")
        for name in HOSTILE:
            shown = re.sub("[\u202e\u2028\t]", "?", name)
            self.expect("" if shown in text else shown, "not shown")
        self.quiet(page)

    def many(self, page):
        self.name = page.stem
        self.browser.open(page)
        rows = self.browser.run("document.querySelectorAll('.explorer tbody tr').length")
        self.expect(f"{rows} rows" if not 40 <= rows <= ROWS else "", "ten thousand tensors")
        n = self.browser.run("document.querySelector('.told').textContent")
        self.expect("" if n == "10,000 tensors" else n)
        self.expect(self.browser.run(VIRTUAL.replace("ROWS", str(ROWS))), "rows near the window")

    def order(self, by_name):
        """The worst tensor first, layers by their numbers, no options of others, names of operations, and everything in its card."""
        self.name = "order"
        self.browser.open(by_name["quantize"])
        self.expect(self.browser.run(WORST_FIRST))
        self.name = "estimate"
        self.browser.open(by_name["estimate"])
        text = self.browser.run("document.querySelector('#page').innerText")
        for word in ("bucket elems", "schedule", "offload", "micro batches"):
            self.expect(word if word in text else "", "an option of others")
        self.expect("" if re.search(r"peak [0-9.]+ [KMG]iB at \S+", text) and "the fullest operations" in text else text[:300], "no names of operations")
        self.name = "regression"
        self.browser.open(by_name["regression"])
        drawn = self.browser.run("[...document.querySelectorAll('.drawing svg')].map(e => e.getAttribute('aria-label'))")
        self.expect("" if {"R2 over the steps", "mean absolute error over the steps"} <= set(drawn) else str(drawn), "the task's figures over the steps")
        for name in ("two", "shrink-two"):
            self.name = name + " outputs"
            self.browser.open(by_name[name])
            cells = self.browser.run("""[...document.querySelectorAll('[aria-label="figures of the outputs"] tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))""")
            figures = all(re.fullmatch(r"-?[0-9.e-]+", cell) for row in cells for cell in row[3:])
            self.expect("" if [row[:3] for row in cells] == [["kind", "classes", "accuracy"], ["price", "regression", "r2"]] and figures else str(cells), "figures of the outputs")
        for name in ("shrink", "shrink-data", "plan"):
            self.name = name + " commands"
            self.browser.open(by_name[name])
            lines = self.browser.run("[...document.querySelectorAll('main .command code')].map(e => e.textContent)")
            self.expect("" if lines and all(line.startswith("vcompress ") for line in lines) else str(lines), "a recipe that is no command")
        self.name = "sensitivity"
        self.browser.open(by_name["sensitivity"])
        self.expect("" if self.browser.run("document.querySelectorAll('#drawing').length") == 0 else "drawn twice")
        self.expect("" if self.browser.run("[...document.querySelectorAll('.heats .scroll')].every(box => box.scrollWidth <= box.clientWidth + 1)") else "wider than its card")
        self.expect("" if "usual for int4" in self.browser.run("document.querySelector('#page').innerText") else "no line to compare with")

    def network(self, page):
        """The network of a graph: what is there at once, zoom and movement by buttons, keys, mouse and fingers, search, a node and its neighbours, paper."""
        def run(script):
            value = self.browser.run(script)
            self.browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            return value

        def view():
            return [float(x) for x in re.findall(r"-?[0-9.]+(?:e-?[0-9]+)?", self.browser.run("document.querySelector('.network g').getAttribute('transform')"))]

        def wrong(condition, what, value=""):
            self.expect(f"{value}" or "no" if condition else "", what)

        def mouse(kind, x, y, **more):
            self.browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1, **more)

        def pick(text):
            run(f"(() => {{ const i = document.querySelector('.networks input'); i.value = {json.dumps(text)}; i.dispatchEvent(new Event('input')); }})()")

        self.name = page.stem + " network"
        self.browser.open(page)
        nodes = run("JSON.parse(document.getElementById('document').textContent).nodes.map(node => [node.op, node.inputs, node.outputs])")
        told = lambda: self.browser.run("document.querySelector('.networks .told').textContent")  # noqa: E731
        wrong(told() != f"{len(nodes):,} nodes", "told", told())
        run("document.querySelector('.stage').scrollIntoView({block: 'center'})")
        wrong(run("document.querySelectorAll('.network *').length") > 700, "elements at once")
        for name, act, larger in (("+", "document.querySelector('[aria-label=nearer]').click()", True), ("-", "document.querySelector('[aria-label=farther]').click()", False)):
            before = view()
            run(act)
            wrong((view()[2] > before[2]) != larger or view()[2] == before[2], "zoom " + name, view())
        run("document.querySelector('.stage').focus()")
        for key, axis, sign in (("ArrowDown", 1, -1), ("ArrowUp", 1, 1), ("ArrowRight", 0, -1), ("ArrowLeft", 0, 1), ("+", 2, 1), ("-", 2, -1)):
            before = view()
            for kind in ("keyDown", "keyUp"):
                self.browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)
            run("0")
            wrong((view()[axis] - before[axis]) * sign <= 0, "key " + key, view())
        box = run("(() => { const r = document.querySelector('.stage').getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()")
        x, y = box[0] + box[2] / 2, box[1] + box[3] / 2
        before = view()
        mouse("mousePressed", x, y)
        for step in (10, 30, 50):
            mouse("mouseMoved", x + step, y - step, buttons=1)
        mouse("mouseReleased", x + 50, y - 50)
        run("0")
        wrong(abs(view()[0] - before[0] - 50) > 2 or abs(view()[1] - before[1] + 50) > 2, "drag", view())
        before = view()
        for kind, apart in (("touchStart", 40), ("touchMove", 60), ("touchMove", 80), ("touchEnd", 0)):
            points = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}] if apart else []
            self.browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
        run("0")
        wrong(not 1.6 < view()[2] / before[2] < 2.4, "two fingers", view()[2] / before[2])
        run("document.querySelector('[aria-label^=\"all of it\"]').click()")
        inside = run("""(() => { const stage = document.querySelector('.stage').getBoundingClientRect();
            return [...document.querySelectorAll('.network .box')].filter(e => e.getAttribute('d')).every(e => { const r = e.getBoundingClientRect();
              return r.left >= stage.left - 2 && r.right <= stage.right + 2 && r.top >= stage.top - 2 && r.bottom <= stage.bottom + 2; }); })()""")
        wrong(not inside, "all of it")
        word = max({op for op, _, _ in nodes}, key=lambda op: sum(op == other for other, _, _ in nodes))
        pick(word)
        hits = sum(word.lower() in op.lower() for op, _, _ in nodes)
        wrong(not re.match(r"1 of [0-9,]+$", told()) or int(told().split()[-1].replace(",", "")) < hits, "search", told())
        wrong(run("document.querySelector('.picked b').textContent") != word and word.lower() not in run("document.querySelector('.picked').textContent").lower(), "picked")
        seen = run("""(() => { const stage = document.querySelector('.stage').getBoundingClientRect(), r = document.querySelector('.network .mark').getBoundingClientRect();
            return r.left >= stage.left && r.right <= stage.right && r.top >= stage.top && r.bottom <= stage.bottom; })()""")
        wrong(not seen, "the hit is out of the window")
        for event in ("Enter", "Enter"):
            run(f"document.querySelector('.networks input').dispatchEvent(new KeyboardEvent('keydown', {{key: '{event}', cancelable: true}}))")
        wrong(hits > 2 and not told().startswith("3 of "), "the next hit", told())
        # A node whose neighbours are counted from the document.
        maker = {value: k for k, (_, _, outputs) in enumerate(nodes) for value in outputs if value is not None}
        reads = [{maker[value] for value in inputs if value in maker} for _, inputs, _ in nodes]
        at = next(k for k, (op, _, _) in enumerate(nodes) if op == "Softmax" or op == "Attention" or op == "MatMul")
        near = {at} | reads[at] | {k for k, of in enumerate(reads) if at in of}
        pick("no such operator")
        wrong(told() != f"0 of {len(nodes):,}", "search for nothing", told())
        pick(nodes[at][0])
        run("(() => { const s = document.querySelector('.networks select'); s.value = '1'; s.dispatchEvent(new Event('change')); })()")
        wrong(told() != f"{len(near)} of {len(nodes):,}", "neighbours", told())
        wrong(run("document.querySelectorAll('.network text.op').length") != len(near), "names of the neighbours")
        beside = run("document.querySelectorAll('.picked button').length")
        wrong(beside != len(near) - 1, "buttons of the neighbours", beside)
        run("document.querySelector('.picked button').click()")
        wrong(run("document.querySelectorAll('.network .mark').length") != 1, "one is picked")
        self.browser.call("Emulation.setEmulatedMedia", media="print")
        run("dispatchEvent(new Event('beforeprint'))")
        wrong(run("document.querySelector('.networks').getClientRects().length") != 0, "on paper")
        wrong(run("document.querySelector('#drawing details').open && document.querySelector('#drawing details > *:last-child').getClientRects().length") != 1, "the drawing on paper")
        self.browser.call("Emulation.setEmulatedMedia", media="")
        self.quiet(page)

    def printed(self, page):
        self.name = page.stem + " printed"
        self.browser.open(page)
        pdf = base64.b64decode(self.browser.call("Page.printToPDF", printBackground=True)["data"])
        self.expect("" if pdf.startswith(b"%PDF") and len(pdf) > 20000 else f"{len(pdf)} bytes")

    def without_scripts(self, page, words):
        self.name = page.stem + " without scripts"
        self.browser.call("Emulation.setScriptExecutionDisabled", value=True)
        self.browser.events.clear()
        self.browser.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.browser.events):
            self.browser.events.append(self.browser.receive())
        self.browser.call("Emulation.setScriptExecutionDisabled", value=False)
        text = self.browser.run("document.body.innerText + (document.querySelector('#drawing div div') ? ' drawn ' + document.querySelector('#drawing div div').shadowRoot.textContent : '')")
        for word in words:
            self.expect("" if word in text else word, "not there")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--pictures", type=pathlib.Path)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("root", type=pathlib.Path)
    args = parser.parse_args()
    program = browsers.find()
    if program is None:
        print("SKIPPED: no browser: apt-get install chromium-headless-shell")
        return 77
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pages = make_pages(args.program.resolve(), args.root.resolve(), pathlib.Path(folder))
        by_name = {page.stem: page for page in pages}
        browser = browsers.Browser(program)
        try:
            test = Test(browser, args.out)
            for page in pages:
                if page.stem != "many":
                    test.look(page)
                    if page.stem != "network": # more rows than are printed
                        test.use(page)
            test.headlines(by_name)
            test.order(by_name)
            test.keys(by_name["quantize"])
            test.hostile(by_name["hostile"])
            test.printed(by_name["quantize"])
            test.many(by_name["many"])
            test.network(by_name["graph"])
            test.network(by_name["network"])
            test.without_scripts(by_name["quantize"], ("lm_head.weight", "totals.sqnr_db", "decoder.int8.npz"))
            test.without_scripts(by_name["graph"], ("RMSNormalization", "drawn", "products"))
            if args.pictures:
                for name, width, scheme, height in (("quantize", 1280, "light", 1500), ("sensitivity", 1280, "dark", 1180), ("quantize", 390, "dark", 1500)):
                    browser.size(width, scheme)
                    browser.open(by_name[name])
                    browser.picture(args.pictures / f"page-{name}-{width}.png", width, height)
        finally:
            browser.close()
    for line in test.wrong:
        print(line)
    print(f"{len(pages)} pages, {len(test.wrong)} findings")
    return 1 if test.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""browser.py [--out DIR] [--picture FILE.png] [--browser PROGRAM] PAGE.html... - looks at pages in a real browser.

Opens each page in Chromium (Debian: apt-get install chromium), at the width of a phone and of a desktop, in light and
in dark, and once as it is printed. Says what is wrong: a blank picture, a line on the console, a request for anything
but the page itself, anything wider than the window (what scrolls inside its own box may be). With --out the pictures
go there as PAGE.phone.light.png and so on; --picture writes the top of the first page, for docs/report.md. Exit status 0 when nothing is wrong. Not part of ./check: it needs a browser.
"""
import argparse, base64, json, os, pathlib, shutil, subprocess, sys, tempfile, zlib

WIDTHS = {"phone": 390, "desktop": 1280}
SCHEMES = ("light", "dark")

# What reaches beyond the window, but for what lies in a box that scrolls or is drawn inside an svg.
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


class Browser:
    """Chromium, spoken to through two pipes (--remote-debugging-pipe): JSON texts that end with NUL."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory()
        in_read, self.to = os.pipe()
        self.of, out_write = os.pipe()

        def ends():
            os.dup2(in_read, 103); os.dup2(out_write, 104)
            os.dup2(103, 3); os.dup2(104, 4)

        args = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                "--disable-extensions", "--remote-debugging-pipe", "--user-data-dir=" + self.profile.name, "about:blank"]
        self.process = subprocess.Popen(args, preexec_fn=ends, close_fds=False, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(in_read), os.close(out_write)
        self.buffer, self.n, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for name in ("Page", "Runtime", "Log", "Network"):
            self.call(name + ".enable")

    def receive(self):
        while b"\0" not in self.buffer:
            more = os.read(self.of, 1 << 16)
            if not more:
                raise SystemExit("the browser has ended")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.n += 1
        message = {"id": self.n, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.n:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait(self, method):
        while not any(e.get("method") == method for e in self.events):
            self.events.append(self.receive())

    def close(self):
        os.close(self.to)
        self.process.terminate()
        self.process.wait(timeout=20)
        os.close(self.of)
        self.profile.cleanup()


def colours(png):
    """How many different colours a small picture has: rows are undone by their filters."""
    at, data, width, height, channels = 8, b"", 0, 0, 3
    while at < len(png):
        size, kind = int.from_bytes(png[at:at + 4], "big"), png[at + 4:at + 8]
        body = png[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big")
            channels = {2: 3, 6: 4}[body[9]]
        data += body if kind == b"IDAT" else b""
        at += 12 + size
    raw, line, seen = zlib.decompress(data), bytearray(width * channels), set()
    for y in range(height):
        start = y * (width * channels + 1)
        kind, row = raw[start], bytearray(raw[start + 1:start + 1 + width * channels])
        for i in range(len(row)):
            a = row[i - channels] if i >= channels else 0
            b, c = line[i], line[i - channels] if i >= channels else 0
            p = a + b - c
            paeth = a if abs(p - a) <= abs(p - b) and abs(p - a) <= abs(p - c) else b if abs(p - b) <= abs(p - c) else c
            row[i] = row[i] + (0, a, b, (a + b) // 2, paeth)[kind] & 255
        seen.update(bytes(row[i:i + 3]) for i in range(0, len(row), channels))
        line = row
    return len(seen)


def look(browser, page, out, wrong):
    for device, width in WIDTHS.items():
        for scheme in SCHEMES:
            name = f"{page.name} {device} {scheme}"
            browser.events.clear()
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                         deviceScaleFactor=2 if device == "phone" else 1, mobile=device == "phone")
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            browser.call("Page.navigate", url=page.resolve().as_uri())
            browser.wait("Page.loadEventFired")
            wide = browser.call("Runtime.evaluate", expression=TOO_WIDE)["result"]["value"]
            if wide:
                wrong.append(f"{name}: wider than {width}: {wide}")
            size = browser.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": width, "height": size["height"], "scale": 1}
            if out:
                shot = browser.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
                (out / f"{page.stem}.{device}.{scheme}.png").write_bytes(base64.b64decode(shot))
            small = dict(clip, height=min(900, size["height"]), scale=0.2)
            n = colours(base64.b64decode(browser.call("Page.captureScreenshot", clip=small)["data"]))
            if n < 8:
                wrong.append(f"{name}: blank: {n} colours")
            for event in browser.events:
                kind, params = event.get("method"), event.get("params", {})
                if kind in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                    wrong.append(f"{name}: console: {json.dumps(params)[:300]}")
                if kind == "Network.requestWillBeSent" and params["request"]["url"] != page.resolve().as_uri():
                    wrong.append(f"{name}: asks for {params['request']['url'][:200]}")
    printed = base64.b64decode(browser.call("Page.printToPDF", printBackground=True)["data"])
    if not printed.startswith(b"%PDF"):
        wrong.append(f"{page.name}: cannot be printed")
    if out:
        (out / f"{page.stem}.pdf").write_bytes(printed)


def picture(browser, page, path, height):
    """The first `height` pixels at 1,100 wide, in light."""
    browser.events.clear()
    browser.call("Emulation.setDeviceMetricsOverride", width=1100, height=height, deviceScaleFactor=1, mobile=False)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    browser.call("Page.navigate", url=page.resolve().as_uri())
    browser.wait("Page.loadEventFired")
    shot = browser.call("Page.captureScreenshot", clip={"x": 0, "y": 0, "width": 1100, "height": height, "scale": 1},
                        captureBeyondViewport=True)["data"]
    path.write_bytes(base64.b64decode(shot))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--picture", type=pathlib.Path)
    parser.add_argument("--height", type=int, default=1000)
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    if args.browser is None:
        raise SystemExit("no browser: apt-get install chromium, or --browser PROGRAM")
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
    browser, wrong = Browser(args.browser), []
    try:
        for page in args.pages:
            look(browser, page, args.out, wrong)
        if args.picture:
            picture(browser, args.pages[0], args.picture, args.height)
    finally:
        browser.close()
    for line in wrong:
        print(line)
    print(f"{len(args.pages)} pages, {len(args.pages) * len(WIDTHS) * len(SCHEMES)} views, {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

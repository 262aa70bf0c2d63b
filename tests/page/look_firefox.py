#!/usr/bin/env python3
"""look_firefox.py PROGRAM ROOT - what test_browser.py wants of pages, in Firefox: nothing wider than the window, labels, search, sorting,
print. By hand; needs firefox-esr (Debian) or firefox, and is no part of the test set. Firefox is spoken to by Marionette: JSON with its
length before it.
"""
import json, os, pathlib, shutil, socket, subprocess, sys, tempfile, time

import test_browser as test


class Firefox:
    def __init__(self, program):
        self.profile = tempfile.mkdtemp()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        pathlib.Path(self.profile, "user.js").write_text(f'user_pref("marionette.port", {port});\n')
        self.process = subprocess.Popen([program, "--headless", "--marionette", "--no-remote", "--profile", self.profile], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, MOZ_HEADLESS="1"))
        self.buffer, self.n = b"", 0
        for _ in range(600):
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
                break
            except OSError:
                time.sleep(0.1)
        self.receive()
        self.call("WebDriver:NewSession")

    def receive(self):
        while b":" not in self.buffer:
            self.buffer += self.socket.recv(1 << 16)
        size, rest = self.buffer.split(b":", 1)
        while len(rest) < int(size):
            rest += self.socket.recv(1 << 16)
        self.buffer = rest[int(size):]
        return json.loads(rest[:int(size)])

    def call(self, name, **params):
        self.n += 1
        text = json.dumps([0, self.n, name, params]).encode()
        self.socket.sendall(str(len(text)).encode() + b":" + text)
        _, _, error, result = self.receive()
        if error:
            raise SystemExit(f"{name}: {error.get('message')}")
        return result

    def run(self, script):
        return self.call("WebDriver:ExecuteScript", script="return " + script, args=[])["value"]

    def close(self):
        self.call("Marionette:Quit", flags=["eForceQuit"])
        self.process.wait(timeout=30)
        shutil.rmtree(self.profile, ignore_errors=True)


def main(program, root):
    browser = shutil.which("firefox-esr") or shutil.which("firefox")
    if browser is None:
        raise SystemExit("no Firefox: apt-get install firefox-esr")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        pages = test.make_pages(pathlib.Path(program).resolve(), pathlib.Path(root).resolve(), pathlib.Path(folder))
        firefox = Firefox(browser)
        try:
            for page in pages:
                begun = time.monotonic()
                firefox.call("WebDriver:Navigate", url=page.resolve().as_uri())
                seconds = time.monotonic() - begun
                ready = firefox.run("document.documentElement.dataset.ready")
                found = [] if ready == "yes" else ["the scripts did not end"]
                for width in (500, 1280):
                    firefox.call("WebDriver:SetWindowRect", width=width, height=900)
                    found.append(firefox.run(test.TOO_WIDE))
                if page.stem != "many":
                    found += [firefox.run(script) for script in (test.LABELS, test.CONTRAST, test.EXPLORE, test.PRINTED)]
                found = [one for one in found if one]
                wrong += len(found)
                print(f"{page.stem}: {seconds:.2f} s", *found, sep="\n  ")
        finally:
            firefox.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

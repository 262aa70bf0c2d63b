"""browser.py - Chromium as tests use it: started without a window, spoken to through two pipes (--remote-debugging-pipe), JSON
texts that end with NUL. Debian: apt-get install chromium-headless-shell, or chromium."""
import base64, json, os, shutil, subprocess, tempfile, time

NAMES = ("chromium-headless-shell", "chromium-shell", "chromium", "google-chrome")


def find():
    """The program of a browser, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self, program):
        self.profile = tempfile.mkdtemp()
        in_read, self.to = os.pipe()
        self.of, out_write = os.pipe()

        def ends():
            os.dup2(in_read, 103); os.dup2(out_write, 104)
            os.dup2(103, 3); os.dup2(104, 4)

        args = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
                "--disable-dev-shm-usage", "--remote-debugging-pipe", "--user-data-dir=" + self.profile, "about:blank"]
        self.process = subprocess.Popen(args, preexec_fn=ends, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
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

    def run(self, script):
        """The value of an expression, or of what it promises, on the page."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise SystemExit(f"{script[:200]}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def size(self, width, scheme="light", height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, page):
        """Opens a file, and waits until it is drawn; the seconds that took."""
        self.events.clear()
        begun = time.monotonic()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - begun

    def picture(self, path, width, height):
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]))

    def close(self):
        os.close(self.to)
        self.process.terminate()
        self.process.wait(timeout=20)
        os.close(self.of)
        shutil.rmtree(self.profile, ignore_errors=True)

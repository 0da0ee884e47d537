# SPDX-License-Identifier: MIT
"""Chromium without a window, driven through its debugging pipe: JSON messages that end with NUL, to fd 3 and from fd 4.

    with Browser() as browser:
        page = browser.open("page.html", width=390, height=844, dark=True)
        page.value("document.title")       what the expression is, as JSON
        page.key("ArrowRight"); page.screenshot("a.png"); page.errors

    python3 tests/regress/browser.py PAGE.html IMAGE.png WIDTH HEIGHT light|dark [SECTION]      a picture, from that section on
"""
import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
         "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe")
PATIENCE = 60


def find():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        (their_in, self.to), (self.back, their_out) = os.pipe(), os.pipe()
        # Chromium wants them as 3 and 4: numbers that neither of them has yet.
        theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (their_in, their_out)]
        line = 'exec "$0" "$@" 3<&{} 4>&{}'.format(*theirs)
        self.process = subprocess.Popen(["bash", "-c", line, find(), *FLAGS, f"--user-data-dir={self.folder.name}", "about:blank"],
                                        pass_fds=theirs, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (their_in, their_out, *theirs):
            os.close(fd)
        self.number, self.rest, self.told = 0, b"", []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.send("Browser.close")
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.folder.cleanup()

    def send(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        return self.number

    def receive(self):
        """The next message."""
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.rest:
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium says nothing for {PATIENCE} s")
            part = os.read(self.back, 1 << 20)
            if not part:
                raise EOFError(f"Chromium ended: {self.process.poll()}")
            self.rest += part
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def call(self, method, session=None, **params):
        number = self.send(method, session, **params)
        while True:
            message = self.receive()
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.told.append(message)

    def open(self, path, width=1280, height=800, dark=False):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.look(width, height, dark)
        page.call("Page.navigate", url=pathlib.Path(path).absolute().as_uri())
        page.wait("document.documentElement?.dataset.ready")
        return page


class Page:
    def __init__(self, browser, session, target):
        self.browser, self.session, self.target = browser, session, target

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def look(self, width, height, dark=False):
        """In a window of this size and this theme; of a page that is open it waits until that is drawn."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def fingers(self, kind, *points):
        self.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y, "id": at} for at, (x, y) in enumerate(points)])

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression):
        end = time.monotonic() + PATIENCE
        while not (found := self.value(expression)):
            if time.monotonic() > end:
                raise TimeoutError(expression)
            time.sleep(0.05)
        return found

    def key(self, name, shift=False):
        text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
        for kind in ("keyDown", "keyUp"):
            code = {"Enter": 13, "Tab": 9, "Escape": 27}.get(name, 0)
            self.call("Input.dispatchKeyEvent", type=kind, key=name, text=text if kind == "keyDown" else "", windowsVirtualKeyCode=code,
                      modifiers=8 if shift else 0)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    @property
    def errors(self):
        """What the console, the policy and the scripts complained of."""
        self.value("1")
        found = []
        for message in self.browser.told:
            if message.get("sessionId") != self.session:
                continue
            params = message.get("params", {})
            if message.get("method") == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("text", "") + str(params["exceptionDetails"].get("exception", {}).get("description", "")))
            if message.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            if message.get("method") == "Runtime.consoleAPICalled":
                found.append(f"console.{params['type']}: {params['args']}")
        return found

    def screenshot(self, path, whole=False):
        options = {"captureBeyondViewport": True} if whole else {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", **options)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))


def main(path, image, width, height, theme, section=None):
    with Browser() as started:
        page = started.open(path, width=int(width), height=int(height), dark=theme == "dark")
        if section:
            page.value(f"document.getElementById({section!r}).scrollIntoView()")
        time.sleep(0.3) # it is drawn once more where it got another size
        page.screenshot(image)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Chromium without a window, driven over a pipe by its own protocol. Nothing but Python is needed."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "real"))

import build  # noqa: E402

PATIENCE = 120


class Browser:
    def __init__(self, width, height):
        self.folder = tempfile.mkdtemp(prefix="dovetail-console-")
        to_browser, ours = os.pipe()
        self.reading, browser_writes = os.pipe()
        program = build.chromium()

        # Descriptor 3 is what the browser reads, 4 what it writes.
        def wire():
            os.dup2(to_browser, 3)
            os.dup2(browser_writes, 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                 "--disable-component-update", "--disable-extensions", "--remote-debugging-pipe", f"--user-data-dir={self.folder}", f"--window-size={width},{height}", "about:blank"]
        # Descriptors 3 and 4 must be free for the child.
        os.set_inheritable(to_browser, True)
        os.set_inheritable(browser_writes, True)
        self.process = subprocess.Popen([program, *flags], preexec_fn=wire, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(browser_writes)
        self.writing, self.number, self.rest, self.session = ours, 0, b"", None
        self.logs = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.size(width, height)

    def ask(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.logs.append(answer)

    def read(self):
        while b"\0" not in self.rest:
            more = os.read(self.reading, 1 << 20)
            if not more:
                raise AssertionError("the browser has ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, url):
        self.ask("Page.navigate", url=url)

    def eval(self, script):
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, script, what):
        """Until the script says true; what it waits for may take long on a busy machine, never for ever."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.eval(script):
                return
            time.sleep(0.1)
        raise AssertionError(f"never: {what}\n{self.eval('document.body.innerText')[:2000]}")

    def key(self, key, text=""):
        codes = {"Enter": 13, "Tab": 9, "ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40, "ArrowUp": 38, "Escape": 27, "/": 191, "End": 35, "Home": 36}
        known = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, 0)}
        text = {"Enter": "\r", "/": "/"}.get(key, text)
        self.ask("Input.dispatchKeyEvent", type="keyDown", **known, **({"text": text} if text else {}))
        self.ask("Input.dispatchKeyEvent", type="keyUp", **known)

    def write(self, text):
        self.ask("Input.insertText", text=text)

    def size(self, width, height):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)

    def scheme(self, scheme):
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        import base64
        data = self.ask("Page.captureScreenshot", format="png")["data"]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def complaints(self):
        """Errors of the page, and requests to anybody else."""
        bad = []
        for event in self.logs:
            if event.get("method") == "Runtime.exceptionThrown":
                bad.append(event["params"]["exceptionDetails"])
            if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error" and "favicon" not in json.dumps(event):
                bad.append(event["params"]["entry"])
        return bad

    def asked_for(self):
        return {event["params"]["request"]["url"] for event in self.logs if event.get("method") == "Network.requestWillBeSent"}

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.writing)
        os.close(self.reading)
        shutil.rmtree(self.folder, ignore_errors=True)

"""A headless Chromium, through its driver and Python's standard library (WebDriver over HTTP)."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MISSING = not (CHROMIUM and DRIVER)
PATIENCE_S = 60


class Browser:
    """folder: for its profile and what it downloads; the caller removes it."""

    def __init__(self, folder):
        self.folder = folder
        self.downloads = os.path.join(folder, "downloads")
        os.makedirs(self.downloads, exist_ok=True)
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([DRIVER, "--port=0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.log, env={**os.environ, "HOME": folder})
        self.base = f"http://127.0.0.1:{self.find_port()}"
        options = {"binary": CHROMIUM, "args": [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--autoplay-policy=no-user-gesture-required", "--force-color-profile=srgb", "--hide-scrollbars",
            f"--user-data-dir={folder}/profile", "--window-size=1280,900"]}
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.base += "/session/" + answer["sessionId"]
        self.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=self.downloads)

    def find_port(self):
        for line in self.process.stdout:
            if b"on port" in line and b"successfully" in line:
                return int(line.split(b"on port")[1].strip(b" .\n"))
        raise AssertionError("the driver does not start")

    def call(self, method, path, data=None):
        request = urllib.request.Request(self.base + path, method=method,
                                         data=None if data is None else json.dumps(data).encode(),
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def cdp(self, command, **params):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def open(self, path):
        self.call("POST", "/url", {"url": path if "://" in path else "file://" + path})

    def js(self, script, *args):
        """The value of a function's body."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def wait_js(self, script, *args):
        """Until it is true; returns it."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            value = self.js(script, *args)
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"waited in vain: {script}")

    def find(self, selector):
        return next(iter(self.call("POST", "/element", {"using": "css selector", "value": selector}).values()))

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def keys(self, text):
        actions = [{"type": kind, "value": c} for c in text for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def messages(self):
        """Of the console, since it was asked last."""
        return [f"{m['level']}: {m['message']}" for m in self.call("POST", "/se/log", {"type": "browser"})]

    def media(self, dark=False, print_=False):
        self.cdp("Emulation.setEmulatedMedia", media="print" if print_ else "",
                 features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def size(self, width, height=900):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                 mobile=width < 600)

    def screenshot(self, path, whole=False):
        shot = self.cdp("Page.captureScreenshot", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def pdf(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.cdp("Page.printToPDF", preferCSSPageSize=True)["data"]))

    def close(self):
        try:
            self.call("DELETE", "", None)
        except (OSError, AssertionError):
            pass
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

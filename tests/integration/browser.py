"""A real headless Chromium, driven through chromedriver's WebDriver interface over HTTP."""

import base64
import json
import pathlib

import lib

ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--disable-dev-shm-usage", "--hide-scrollbars"]


class Browser:
    """One page in one browser with a profile of its own below folder.  Ends with close()."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.port = lib.free_port()
        self.driver = lib.Process("chromedriver", ["chromedriver", f"--port={self.port}"], folder,
                                  {"HOME": str(folder)})
        self.session = ""
        try:
            lib.wait_until(lambda: self._call("GET", "/status")["ready"], 20, "chromedriver is ready")
            made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome",
                "goog:loggingPrefs": {"browser": "ALL"},
                "goog:chromeOptions": {
                    "args": [*ARGUMENTS, f"--user-data-dir={self.folder}/profile"]},
            }}}, timeout=60)
            self.session = f"/session/{made['sessionId']}"
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.session and self.driver.alive():
            try:
                self._call("DELETE", self.session)
            except (OSError, lib.Failure):
                pass
        self.driver.end()

    def _call(self, method, path, body=None, timeout=30):
        reply = lib.request(f"127.0.0.1:{self.port}", method, path,
                            None if body is None else json.dumps(body),
                            {"Content-Type": "application/json"}, timeout)
        value = reply.json()["value"]
        if reply.status != 200:
            raise lib.Failure(f"WebDriver {method} {path}: {value['error']}: {value['message']:.500}")
        return value

    def _do(self, command, body=None):
        return self._call("POST", f"{self.session}/{command}", body or {})

    def cdp(self, command, **params):
        return self._do("goog/cdp/execute", {"cmd": command, "params": params})

    def size(self, width, height, scale=1, phone=False):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=scale, mobile=phone)

    def scheme(self, name):
        """What the system prefers: "light" or "dark"."""
        self.cdp("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, url):
        self._do("url", {"url": url})

    def run(self, script, *args):
        """The value of a JavaScript function's body."""
        return self._do("execute/sync", {"script": script, "args": list(args)})

    def text(self, selector):
        """What one sees of the first element that fits; "" when there is none."""
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)",
                        selector)

    def keys(self, *names):
        """Presses keys, by their WebDriver code points or as characters."""
        actions = []
        for name in names:
            actions += [{"type": "keyDown", "value": name}, {"type": "keyUp", "value": name}]
        self._do("actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def click(self, selector):
        """At the middle of the element, scrolled to, as a person would."""
        at = self.run("""const e = document.querySelector(arguments[0]);
            e.scrollIntoView({block: 'center', behavior: 'instant'});
            const box = e.getBoundingClientRect();
            return [Math.round(box.x + box.width / 2), Math.round(box.y + box.height / 2)]""", selector)
        self._do("actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [
            {"type": "pointerMove", "duration": 0, "x": at[0], "y": at[1]},
            {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]}]})

    def console(self):
        """All that the console has got since the last call."""
        return [entry["message"] for entry in self._do("se/log", {"type": "browser"})]

    def screenshot(self, path, whole=False):
        shot = self.cdp("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

"""A headless Chromium, driven by chromedriver's own protocol (W3C WebDriver: JSON over HTTP).

Each browser has a profile of its own, and its features that would reach out to the network are off.
"""

from __future__ import annotations

import base64
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-default-apps", "--disable-extensions", "--metrics-recording-only"),
)
NO_SCRIPTS = {"profile.managed_default_content_settings.javascript": 2}
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


@dataclass(frozen=True)
class Browser:
    """One session. ``address`` is that of the session."""

    address: str

    def call(self, method: str, path: str, **body: Any) -> Any:
        given = {} if method == "GET" else {"json": body}
        answer = requests.request(method, f"{self.address}{path}", timeout=60, **given)
        value = answer.json()["value"]
        assert answer.ok, value
        return value

    def open(self, page: Path) -> None:
        self.call("POST", "/url", url=page.resolve().as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        """What the body of a JavaScript function returns."""
        return self.call("POST", "/execute/sync", script=script, args=list(arguments))

    def texts(self, selector: str) -> list[str]:
        """Text of the elements that are visible, as a reader sees it."""
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].filter(n => n.checkVisibility())"
            ".map(n => n.innerText.trim())",
            selector,
        )

    def click(self, selector: str) -> None:
        found = self.call("POST", "/element", using="css selector", value=selector)
        self.call("POST", f"/element/{found[ELEMENT]}/click")

    def press(self, *keys: str) -> None:
        """Press keys one after the other, wherever the focus is."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", actions=[{"type": "key", "id": "keys", "actions": strokes}])

    def complaints(self) -> list[str]:
        """What the console has: violations of the Content-Security-Policy, errors of scripts."""
        return [entry["message"] for entry in self.call("POST", "/se/log", type="browser")]

    def protocol(self, command: str, **parameters: Any) -> Any:
        """One command of Chromium's DevTools protocol."""
        return self.call("POST", "/goog/cdp/execute", cmd=command, params=parameters)

    def screenshot(self, file: Path, *, width: int, dark: bool = False) -> None:
        """The whole page as PNG."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.protocol("Emulation.setEmulatedMedia", features=[scheme])
        self.protocol(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        height = self.protocol("Page.getLayoutMetrics")["cssContentSize"]["height"]
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, 8000), "scale": 1}
        picture = self.protocol("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(picture["data"]))
        self.protocol("Emulation.clearDeviceMetricsOverride")


@contextmanager
def chromium(*, scripts: bool = True) -> Iterator[Browser]:
    """A fresh browser; ``scripts=False`` is one whose user has switched JavaScript off."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            address = f"http://127.0.0.1:{_port(driver)}/session"
            options: dict[str, Any] = {"args": [*FLAGS, f"--user-data-dir={profile}"]}
            if not scripts:
                options["prefs"] = NO_SCRIPTS
            wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            body = {"capabilities": {"alwaysMatch": wanted}}
            session = requests.post(address, json=body, timeout=60).json()["value"]
            browser = Browser(f"{address}/{session['sessionId']}")
            yield browser
            browser.call("DELETE", "")
        finally:
            driver.terminate()
            driver.communicate(timeout=30)


def _port(driver: subprocess.Popen[str]) -> int:
    assert driver.stdout is not None
    for line in driver.stdout:
        if match := re.search(r"started successfully on port (\d+)", line):
            return int(match[1])
    raise AssertionError("chromedriver did not start")

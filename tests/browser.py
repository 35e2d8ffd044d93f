"""A headless Chromium for tests, driven through its debugging pipe; nothing but Chromium is needed."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["BROWSER", "Browser", "browser"]

#: The browser there is, or None. CHROMIUM names another.
BROWSER = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)
#: Seconds without any answer after which the browser counts as dead.
_PATIENCE = 120.0


class Browser:
    """One tab of a browser that runs.

    Attributes
    ----------
    faults
        Errors of scripts, loads that failed or were refused, and errors written to the console.
    """

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._buffer = b""
        self._number = 0
        self._session = ""
        self._events: list[dict[str, Any]] = []
        self.faults: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
            self._note(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._answers], [], [], _PATIENCE)[0]:
                raise RuntimeError("the browser does not answer")
            part = os.read(self._answers, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def _note(self, event: dict[str, Any]) -> None:
        method, details = event.get("method", ""), event.get("params", {})
        self._events.append(event)
        if method == "Runtime.exceptionThrown":
            thrown = details["exceptionDetails"]
            self.faults.append(thrown.get("exception", {}).get("description") or thrown["text"])
        elif method == "Log.entryAdded" and details["entry"]["level"] == "error":
            self.faults.append(details["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and details["type"] == "error":
            self.faults.append(str([argument.get("value") for argument in details["args"]]))

    def requests(self) -> list[str]:
        """Return the addresses the page has asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self._events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def look(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Give the tab a size in pixels, and a light or a dark screen."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        """Open a page and wait until its scripts have run."""
        self._events.clear()
        self.call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._note(self._read())

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key, such as Enter or Tab."""
        codes = {"Enter": 13, "Tab": 9, " ": 32}
        event = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **event, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the mouse at one place of the tab and let it go at another."""
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def screenshot(self, path: Path, *, whole: bool = True) -> Path:
        """Write what the page looks like as PNG: all of it, or what fits on the screen."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser and end it."""
    assert BROWSER is not None
    (commands, ours), (answers, theirs) = os.pipe(), os.pipe()
    # The browser reads commands from descriptor 3 and writes answers to 4; high numbers are in nobody's way.
    given = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (commands, theirs)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                "bash",
                "-c",
                f'exec "$@" 3<&{given[0]} 4>&{given[1]}',
                "browser",
                BROWSER,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=given,
        )
        for end in (commands, theirs, *given):
            os.close(end)
        try:
            yield Browser(ours, answers)
        finally:
            os.close(ours)
            os.close(answers)
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

"""Headless Chromium through its DevTools protocol: pages as a person sees them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

__all__ = ["NAMES", "Page", "open_page", "program"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--remote-debugging-port=0", "--window-size=1600,1000"),
)
#: MLflow opens a panel of its own the first time that a browser comes.
_SETTLED = (
    "if (location.protocol === 'http:')"
    " localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')"
)
#: Seconds that a page may take to show what is waited for.
_PATIENCE = 240


def program() -> str | None:
    """Return the browser, None where none is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """A page in the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.errors: list[str] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            answer = json.loads((await self._socket.receive()).data)
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(answer["params"]["exceptionDetails"].get("text", ""))
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    async def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return answer["result"].get("value")

    async def open(self, address: str) -> None:
        """Load a page; a change behind the # alone would load nothing."""
        await self.call("Page.navigate", url="about:blank")
        await self.call("Page.navigate", url=address)

    async def text(self) -> str:
        """Return the text that the page shows."""
        return str(await self.run("document.body ? document.body.innerText : ''"))

    async def wait_for(self, *texts: str) -> str:
        """Wait until the page shows all of these, and return its text."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            text = await self.text()
            missing = [wanted for wanted in texts if wanted not in text]
            if not missing:
                return text
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"the page does not show {missing}, but:\n{text[:3000]}")
            await asyncio.sleep(0.2)

    async def screenshot(self, path: Path) -> None:
        """Save what is seen."""
        answer = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(answer["data"]))


@contextlib.asynccontextmanager
async def open_page(width: int = 1600, height: int = 1000) -> AsyncIterator[Page]:
    """Start a browser with an empty page."""
    browser = program()
    assert browser is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [browser, *_OPTIONS, f"--user-data-dir={folder}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            file = Path(folder, "DevToolsActivePort")
            while not (file.exists() and file.read_text().strip()):
                assert process.poll() is None, "the browser has ended"
                await asyncio.sleep(0.1)
            port = file.read_text().split()[0]
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                    target = next(item for item in await answer.json() if item["type"] == "page")
                async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    page = Page(socket)
                    await page.call("Page.enable")
                    await page.call("Runtime.enable")
                    await page.call(
                        "Emulation.setDeviceMetricsOverride",
                        **{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
                    )
                    await page.call("Page.addScriptToEvaluateOnNewDocument", source=_SETTLED)
                    yield page
        finally:
            process.terminate()
            process.wait()

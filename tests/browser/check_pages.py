"""Open every page of a built site in headless Chromium and check that it works with nothing but this machine.

    python tests/browser/check_pages.py [FOLDER ...] [--out FOLDER] [--pictures faulty]

Each folder (default: site) is served on localhost. A page is loaded once, in a window that is then made narrow. It
fails if the console shows an error, a request fails or leaves localhost, a formula or an image has no size, a formula
is wider than its column, or the page is wider than the window at 1280 or 390 pixels. The search fails if it finds
nothing in a page opened as a file. Screenshots, of all pages or only of those with a fault, go to out/browser. Needs
Chromium and ChromeDriver of one version on the search path.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import functools
import http.server
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
TALLEST_SCREENSHOT = 6000  # pixels; a longer page is cut, its checks are not
SETTLE = 0.3  # seconds without a request after which a page counts as loaded

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    # No name resolves but localhost's address: a page that needs another host fails here as it would offline.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]

MEASURE = """
const empty = element => {
  const box = element.getBoundingClientRect();
  return !(box.width > 0 && box.height > 0);
};
const formulas = [...document.querySelectorAll('math')];
const images = [...document.images];
return {
  text: document.body.innerText.trim().length,
  formulas: formulas.length,
  emptyFormulas: formulas.filter(m => m.checkVisibility() && empty(m)).map(m => m.textContent),
  brokenImages: images.filter(i => !(i.complete && i.naturalWidth > 0)).map(i => i.getAttribute('src')),
  wideFormulas: [...document.querySelectorAll('.formula')]
    .filter(f => f.checkVisibility() && f.scrollWidth > f.clientWidth + 1)
    .map(f => f.textContent.trim().slice(0, 60)),
  rawFormulas: [...document.querySelectorAll('.arithmatex')].map(e => e.textContent),
  width: document.documentElement.scrollWidth,
  height: document.documentElement.scrollHeight,
};
"""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: failed requests are read from the browser."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address under which the folder is served while the context lasts."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


@contextlib.contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """A fresh Chromium that records its console and its network."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        sys.exit("chromium and chromedriver are not installed; Debian: apt-get install chromium chromium-driver")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        for flag in [*FLAGS, f"--user-data-dir={profile}"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        browser = webdriver.Chrome(options=options, service=Service(driver))
        try:
            browser.set_page_load_timeout(60)
            browser.set_script_timeout(60)
            yield browser
        finally:
            browser.quit()


def network_events(browser: webdriver.Chrome) -> list[dict]:
    """The network events of the page, collected until none has come for a moment."""
    events: list[dict] = []
    while True:
        time.sleep(SETTLE)
        new = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
        new = [event for event in new if event["method"].startswith("Network.")]
        if not new:
            return events
        events += new


def network_faults(events: list[dict], origin: str) -> Iterator[str]:
    """Requests that leave the served folder, fail, or are answered with an error."""
    addresses: dict[str, str] = {}
    for event in events:
        params = event["params"]
        if event["method"] == "Network.requestWillBeSent":
            address = addresses[params["requestId"]] = params["request"]["url"]
            parts = urlsplit(address)
            if parts.scheme not in ("data", "blob") and not address.startswith(origin):
                yield f"external request: {address[:120]}"
        elif event["method"] == "Network.responseReceived" and params["response"]["status"] >= 400:
            yield f"status {params['response']['status']}: {params['response']['url'][:120]}"
        elif event["method"] == "Network.loadingFailed":
            yield f"failed request: {addresses.get(params['requestId'], '?')[:120]} ({params['errorText']})"
        elif event["method"] == "Network.webSocketCreated":
            yield f"web socket: {params['url'][:120]}"


def page_faults(found: dict, width: int) -> Iterator[str]:
    """What is wrong with a page as it lies in the window."""
    if not found["text"]:
        yield "the page shows no text"
    yield from (f"formula without size: {text!r}" for text in found["emptyFormulas"])
    yield from (f"image not shown: {source}" for source in found["brokenImages"])
    yield from (f"formula not converted: {text!r}" for text in found["rawFormulas"])
    if width > 1000:  # on a phone they scroll by themselves
        yield from (f"formula wider than its column: {text!r}" for text in found.get("wideFormulas", []))
    if found["width"] > width:
        yield f"the page is {found['width']} px wide in a window of {width} px"


def resize(browser: webdriver.Chrome, size: tuple[int, int]) -> None:
    """The window of a screen or of a phone."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def console_faults(browser: webdriver.Chrome) -> Iterator[str]:
    """Errors in the console since it was read last."""
    yield from (f"console: {entry['message'][:200]}" for entry in browser.get_log("browser") if entry["level"] == "SEVERE")


def open_page(browser: webdriver.Chrome, address: str) -> None:
    """Load one page; the logs then hold what this page has caused."""
    browser.get_log("performance"), browser.get_log("browser")
    browser.get(address)
    # Images below the fold are loaded too, whether or not they ask to wait.
    browser.execute_script("for (const image of document.images) image.loading = 'eager';")


def look(browser: webdriver.Chrome, origin: str, width: int) -> tuple[dict, list[str]]:
    """The open page as it lies in the window: what was measured, and what is wrong with it."""
    events = network_events(browser)
    found = browser.execute_script(MEASURE)
    return found, [*network_faults(events, origin), *page_faults(found, width), *console_faults(browser)]


def search_faults(browser: webdriver.Chrome, folder: Path) -> Iterator[str]:
    """The search of a page that is opened as a file, without a server."""
    if not (folder / "search").is_dir():
        return
    resize(browser, WIDTHS["desktop"])
    browser.get((folder / "index.html").as_uri())
    time.sleep(1.0)
    box = browser.find_element(By.CSS_SELECTOR, "input.md-search__input")
    if not box.is_displayed():
        yield f"{folder.name}/index.html (as a file): there is no search"
        return
    box.click()
    box.send_keys("holonomic")
    for _ in range(300):  # a minute: the machine may be busy
        time.sleep(0.2)
        if browser.find_elements(By.CSS_SELECTOR, ".md-search-result__item"):
            return
    yield f"{folder.name}/index.html (as a file): the search finds nothing"


def screenshot(browser: webdriver.Chrome, file: Path, width: int, height: int) -> None:
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, TALLEST_SCREENSHOT), "scale": 1}
    options = {"format": "png", "optimizeForSpeed": True, "captureBeyondViewport": True, "clip": clip}
    image = browser.execute_cdp_cmd("Page.captureScreenshot", options)["data"]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(base64.b64decode(image))


def check_folder(browser: webdriver.Chrome, folder: Path, out: Path, pictures: str) -> tuple[int, int, list[str]]:
    """Check every page of one folder; the number of pages, of formulas, and what is wrong."""
    pages, formulas, faults = sorted(folder.rglob("*.html")), 0, []
    with served(folder) as origin:
        for page in pages:
            name = page.relative_to(folder)
            for label, size in WIDTHS.items():
                resize(browser, size)
                if label == "desktop":  # the phone is the same window made narrow: a page is loaded once
                    open_page(browser, origin + quote(name.as_posix()))
                found, wrong = look(browser, origin, size[0])
                if wrong or pictures == "all":
                    file = out / folder.name / f"{name.with_suffix('')}-{label}.png"
                    screenshot(browser, file, size[0], found["height"])
                faults += [f"{folder.name}/{name} ({label}): {fault}" for fault in wrong]
            formulas += found["formulas"]
    faults += search_faults(browser, folder)
    return len(pages), formulas, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("site")])
    parser.add_argument("--out", type=Path, default=Path("out/browser"))
    parser.add_argument("--pictures", choices=("all", "faulty"), default="all", help="of which pages there are screenshots")
    arguments = parser.parse_args()
    failed = False
    with chromium() as browser:
        for folder in arguments.folders:
            pages, formulas, faults = check_folder(browser, folder.resolve(), arguments.out, arguments.pictures)
            failed |= bool(faults) or pages == 0
            print(*faults, sep="\n", end="\n" if faults else "")
            print(f"{folder}: {pages} pages, {formulas} formulas, {len(faults)} faults")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

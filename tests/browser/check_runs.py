"""Pages of results in headless Chromium: they play, their diagrams have data, on a desk and on a phone, light and dark.

    python tests/browser/check_runs.py [--out FOLDER]

A fault is an error in the console, a request, a page wider than its window, a diagram without a line, a drawing that does
not change while it plays or when the slider or a key is moved, a diagram that cannot be enlarged, a camera that does not
follow what travels or follows what stays, light colours in the dark mode, dark ones on paper, or a
script of the user's that runs.
Screenshots go to out/browser/runs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from check_pages import WIDTHS, chromium, console_faults, network_events, network_faults, page_faults, resize, screenshot
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import dalembert as da
from dalembert.gallery import ENTRIES

PATIENCE = 600  # looks at a page, a tenth of a second apart, until it has to play
EVIL = '</script><img src=x onerror="window.evil = 1"><script>window.evil = 1</script>'

STATE = """
const canvas = document.querySelector('canvas'), context = canvas.getContext('2d');
const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
let sum = 0;
for (let i = 0; i < pixels.length; i += 4) sum = (sum * 31 + pixels[i] + 7 * pixels[i + 1] + pixels[i + 3]) % 1000000007;
const bare = figure => ![...figure.querySelectorAll('path.curve')].some(path => path.getAttribute('d').length > 20);
return { drawing: sum, slider: Number(document.getElementById('time').value),
  clock: document.getElementById('clock').textContent,
  evil: window.evil || 0, playing: document.getElementById('play').textContent.includes('Stop'),
  background: getComputedStyle(document.documentElement).backgroundColor,
  text: document.body.innerText.trim().length, emptyFormulas: [], brokenImages: [], rawFormulas: [],
  width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight,
  empty: [...document.querySelectorAll('figure.panel')].filter(bare).map(f => f.querySelector('figcaption').textContent) };
"""


def pages(folder: Path) -> Iterator[Path]:
    """A motion in the plane, one in space, several with names that are no names, a failed run, many runs."""
    pendulum, disk = ENTRIES["pendulum"], ENTRIES["vertical_rolling_disk"]
    swing = da.simulate(pendulum.system, pendulum.q0, pendulum.v0, h=pendulum.h, steps=200)
    roll = da.simulate(disk.system, disk.q0, disk.v0, h=disk.h, steps=200)
    short = da.simulate(
        pendulum.system,
        pendulum.q0,
        pendulum.v0,
        h=0.05,
        steps=200,
        stop=da.Stop(domain=lambda q, v, p: q[0] > 0),
        throw=False,
    )
    runs = da.ensemble(pendulum.system, np.linspace(0.1, 1.0, 14)[:, None], [0.0], h=0.05, steps=50)
    for name, result in (
        ("travels", travelling()),
        ("plane", swing),
        ("space", roll),
        ("several", {EVIL: swing, "short": short}),
        ("ensemble", runs),
    ):
        da.page(result, folder / f"{name}.html", title=EVIL if name == "several" else name)
        yield folder / f"{name}.html"


def travelling() -> da.Path:
    """A body of the length 0.4 that travels 12."""

    def draw(q):
        return [da.Body.box(q[:2], (0.4, 0.2), angle=q[2]), da.Dots(q[:2], trail=True)]

    knife = da.Nonholonomic(lambda q, v: jnp.sin(q[2]) * v[0] - jnp.cos(q[2]) * v[1])
    system = da.System(lambda q, v: 0.5 * v @ v, knife, coordinates=("x", "y", "φ"), draw=draw)
    return da.simulate(system, [0.0, 0.0, 0.0], [1.0, 0.0, 0.08], h=0.05, steps=240)


def camera_faults(browser: webdriver.Chrome, travels: bool) -> Iterator[str]:
    """What is wrong with the button that follows what travels, and with those that enlarge a diagram."""
    buttons = browser.find_elements(By.ID, "follow")
    if bool(buttons) is not travels:
        yield "the camera follows what stays" if buttons else "the camera does not follow what travels"
    for button in buttons:
        near = browser.execute_script(STATE)["drawing"]
        button.click()
        if browser.execute_script(STATE)["drawing"] == near:
            yield "the whole way looks like a part of it"
    high = "return document.querySelector('.panel .plot').clientHeight"
    before = browser.execute_script(high)
    browser.find_element(By.CLASS_NAME, "enlarge").click()
    if browser.execute_script(high) <= before:
        yield "a diagram is not enlarged"


def faults_of(browser: webdriver.Chrome, page: Path, size: tuple[int, int], dark: bool) -> Iterator[str]:
    """What is wrong with one page in one window."""
    browser.get("about:blank")
    browser.get_log("performance"), browser.get_log("browser")
    resize(browser, size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    address = page.as_uri()
    browser.get(address)
    first = browser.execute_script(STATE)
    for _ in range(PATIENCE):
        time.sleep(0.1)
        second = browser.execute_script(STATE)
        if second["playing"] and second["slider"] > first["slider"] and second["drawing"] != first["drawing"]:
            break
    else:
        yield f"it does not play: slider {first['slider']} to {second['slider']}"
    browser.find_element(By.ID, "play").click()
    stopped = browser.execute_script(STATE)
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.END)
    ended = browser.execute_script(STATE)
    if stopped["playing"] or ended["slider"] != 1000 or ended["drawing"] == stopped["drawing"]:
        yield "the key End does not go to the end"
    slide = "const s = document.getElementById('time'); s.value = 300; s.dispatchEvent(new Event('input'));"
    browser.execute_script(slide)
    moved = browser.execute_script(STATE)
    if moved["clock"] == ended["clock"] or moved["drawing"] == ended["drawing"]:
        yield "the slider does not move the drawing"
    if browser.execute_script("return document.querySelector('canvas').tabIndex") == 0:
        browser.execute_script("document.querySelector('canvas').focus()")
        browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
        turned = browser.execute_script(STATE)
        if turned["clock"] != moved["clock"] or turned["drawing"] == moved["drawing"]:
            yield "an arrow key does not turn the drawing in space"
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    if browser.execute_script(STATE)["background"] not in ("rgb(255, 255, 255)", "rgb(251, 250, 248)"):
        yield "paper is not white"
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    light = sum(int(x) for x in moved["background"].strip("rgb()").split(",")[:3]) > 384
    if light is dark:
        yield f"the background is {moved['background']} in {scheme['value']} mode"
    yield from camera_faults(browser, page.stem == "travels")
    if moved["evil"]:
        yield "a script of the user's has run"
    yield from (f"diagram without a line: {title}" for title in moved["empty"])
    yield from page_faults(moved, size[0])
    yield from network_faults(network_events(browser), address)
    yield from console_faults(browser)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/browser/runs"))
    out, found, count = parser.parse_args().out, [], 0
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for page in pages(Path(folder)):
            for label, size in WIDTHS.items():
                for dark in (False, True):
                    name = f"{page.stem}-{label}{'-dark' if dark else ''}"
                    found += [f"{name}: {fault}" for fault in faults_of(browser, page, size, dark)]
                    screenshot(browser, out / f"{name}.png", size[0], browser.execute_script(STATE)["height"])
                    count += 1
    print(*found, sep="\n", end="\n" if found else "")
    print(f"pages of results: {count} views, {len(found)} faults")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, and pages in it. Ends the test where it is not installed: skipped, or failed in CI."""
import json
import os
import pathlib
import shutil
import sys

IN_CI = os.environ.get("CI") == "true"
try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
    assert BROWSER and DRIVER, "no chromium or no chromedriver"
except (ImportError, AssertionError) as error:
    print(f"{'FAILED' if IN_CI else 'SKIP'}: {error}: run tools/setup.sh --for-tests")
    sys.exit(1 if IN_CI else 77)


def start():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-sandbox", "--window-size=1400,1300"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service(DRIVER), options=options)


ELEMENTS_MAX = 2000
LEFT, RIGHT = 92, 14  # of the pictures, beside the axis


def digits(value, units):
    step, size = 0, abs(value)
    while size >= 1000 and step + 1 < len(units):
        size, step = size / 1000, step + 1
    decimals = 0 if step == 0 or size >= 100 else 1 if size >= 10 else 2
    return f"{'-' if value < 0 else ''}{size:.{decimals}f} {units[step]}"


def size(value):
    return digits(value, ["B", "kB", "MB", "GB", "TB", "PB"])


def time(value):
    return digits(value, ["ns", "us", "ms", "s"])


class Page:
    """NAME.html of the working folder."""

    def __init__(self, driver, name):
        self.driver, self.name = driver, name
        driver.get(pathlib.Path(f"{name}.html").resolve().as_uri())

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def mouse(self, kind, canvas, x, y):
        """At a place of a canvas, once it is in view."""
        place = self.run("const c = document.getElementById(arguments[0]); c.scrollIntoView({block: 'center', behavior: 'instant'});"
                         "const r = c.getBoundingClientRect(); return [r.left, r.top]", canvas)
        for each in kind:
            button = {"button": "left", "clickCount": 1} if each != "mouseMoved" else {}
            self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": each, "x": place[0] + x, "y": place[1] + y, **button})

    def hover(self, canvas, x, y):
        self.mouse(["mouseMoved"], canvas, x, y)
        return self.run("return document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent")

    def click(self, canvas, x, y):
        self.mouse(["mouseMoved", "mousePressed", "mouseReleased"], canvas, x, y)

    def rows(self):
        """What is shown of the table, as cells by title."""
        titles = [title.rstrip(" \u25b2\u25bc") for title in self.texts("#titles button")]
        cells = self.run("return [...document.querySelectorAll('#rows tr:not(.space)')].map(r => [...r.cells].map(c => c.textContent))")
        return [dict(zip(titles, row, strict=True)) for row in cells]

    def count(self):
        return int(self.text("#tabs [aria-selected=true]").split("(")[1].rstrip(")").replace(",", ""))

    def tab(self, name):
        self.run("document.querySelector(`[data-tab=${arguments[0]}]`).click()", name)

    def choose(self, name, value):
        self.run("const f = document.querySelector(`[data-filter=\"${arguments[0]}\"]`); f.value = arguments[1];"
                 "f.dispatchEvent(new Event(f.tagName === 'SELECT' ? 'change' : 'input'))", name, value)

    def cursor(self):
        return int(self.text("#cursor").split()[1])

    def check_quiet(self):
        """Since the page was opened: nothing in the console, and nothing was asked for but the page."""
        said = self.driver.get_log("browser")
        assert not said, (self.name, said)
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
        assert all(url.startswith("file:") and url.endswith(f"/{self.name}.html") for url in asked), asked
        count = self.run("return document.getElementsByTagName('*').length")
        assert count <= ELEMENTS_MAX, (self.name, count)

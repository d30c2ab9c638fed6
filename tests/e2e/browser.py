# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window. Ends the test where it is not installed: skipped, or failed in CI."""
import os
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

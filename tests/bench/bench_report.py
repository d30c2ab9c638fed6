# SPDX-License-Identifier: Apache-2.0
"""The report: bench_report.py BUILD PLAN... Two rows for each plan of tests/e2e/report_page.py, alone and with another plan
laid over it: buffers, commands, CPU s of remat-dump, MB of the page, and in Chromium ms until the page is there, and of drawing all of it, of the marks that follow
the pointer, and of a table that is sorted: the median of several."""
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from browser import start
from report_page import BESIDE, make_plans

REPEATS = 7
TIMED = """const work = [drawAll, drawMarks, () => tabs.refresh()][arguments[0]], took = [];
for (let i = 0; i < arguments[1]; i++) {
  const begin = performance.now();
  work();
  for (const id of ["memory", "streams", "memory-mark"]) byId(id).getContext("2d").getImageData(0, 0, 1, 1); // draws what is asked for
  byId("table").offsetHeight; // lays the table out
  took.push(performance.now() - begin);
}
return took.sort((a, b) => a - b)[arguments[1] >> 1];"""


def write(tools, name, options, page):
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([f"{tools}/remat-dump", f"{name}.plan", "--format", "html", *options, "-o", page], check=True)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


def measure(driver, tools, name, row, options):
    page = f"{name}.html"
    cpu_s = write(tools, name, options, page)
    driver.get(pathlib.Path(page).resolve().as_uri())
    timing = driver.execute_script("const t = performance.timing; return t.domContentLoadedEventEnd - t.navigationStart")
    draw, mark, sort = (driver.execute_script(TIMED, what, REPEATS) for what in range(3))
    buffers, commands = driver.execute_script("return [buffers.length, commands.length]")
    size = os.path.getsize(page) / 1e6
    print(f"{row:12} {buffers:8} {commands:8} {cpu_s:6.2f} {size:6.2f} {timing:8.0f} {draw:8.1f} {mark:8.1f} {sort:8.1f}", flush=True)


def main():
    tools, names = os.path.abspath(sys.argv[1]) + "/tools", sys.argv[2:]
    os.chdir(tempfile.mkdtemp())
    make_plans(tools, names)
    driver = start()
    print(f"{'plan':12} {'buffers':>8} {'commands':>8} {'CPU s':>6} {'MB':>6} {'load ms':>8} {'draw ms':>8} {'mark ms':>8} {'sort ms':>8}")
    try:
        for name in names:
            for row, options in ((name, BESIDE.get(name, [])), (f"{name} --diff", ["--diff", f"{name}-other.plan"])):
                measure(driver, tools, name, row, options)
    finally:
        driver.quit()


main()

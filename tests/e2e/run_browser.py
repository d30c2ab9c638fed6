# SPDX-License-Identifier: Apache-2.0
"""The page of a run in Chromium: no message in the console, no request, few elements; figures, table, hover and places in the
pictures are those of the log's lines; clicks, keys and zoom do what the page says, in light and dark.

    run_browser.py TOOLS"""
import datetime
import math
import os
import sys

from browser import LEFT, RIGHT, Page, start, time
from run_logs import make_logs, read_steps
from harness import scratch
from selenium.webdriver.common.keys import Keys

NAMES = "run", "json", "lost", "many"
FIGURES = {"loss": ("loss", "eval_loss"), "lr": ("lr",), "rate": ("tokens_per_s",)}


def loss_text(value):
    return "not finite" if value is None else f"{value:.4f}"


def rate_text(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}".rstrip("0").rstrip(".")


def clock_text(unix):
    return f"{datetime.datetime.fromtimestamp(math.floor(unix), datetime.timezone.utc):%Y-%m-%d %H:%M:%S}"


class RunPage(Page):
    def __init__(self, driver, name):
        super().__init__(driver, name)
        self.steps = read_steps(name)
        shown = set(self.run("return steps.map(row => row.step)"))
        self.kept = [step for step in self.steps if step["step"] in shown]
        assert len(self.kept) == len(shown) and (len(shown) == len(self.steps)) == (name != "many")

    def chosen(self):
        return int(self.text("#cursor").split(";")[0].split()[1].replace(",", ""))

    def view(self):
        return self.run("return [state.view.begin, state.view.end]")


def check_figures(page):
    said = {title: (float(value), text) for title, value, text in page.run(
        "return [...document.querySelectorAll('#figures div')].map(d => [d.children[0].textContent,"
        " d.children[1].dataset.value.replace('null', 'NaN'), d.children[1].firstChild.textContent])")}
    steps, last = page.steps, page.steps[-1]
    assert said["steps"][0] == last["step"]
    assert said["loss"][1] == loss_text(last["loss"])
    losses = [step["loss"] for step in steps if step["loss"] is not None]
    assert said["lowest loss"] == (min(losses), loss_text(min(losses)))
    evaluated = [step["eval_loss"] for step in steps if step["eval_loss"] is not None]
    if evaluated:
        assert said["evaluation"][0] == evaluated[-1] and said["lowest evaluation"][0] == min(evaluated), said
    if last["tokens"] is not None:
        assert said["tokens"][0] == last["tokens"] and said["learning rate"][0] == last["lr"]
    mean = sum(step["step_ns"] for step in steps) / len(steps)
    assert abs(said["step time"][0] - mean) <= 1e-9 * mean and said["step time"][1] == time(mean), said


def check_places(page):
    """In each picture a figure's place is linear in step and value, and inside, with the least and the most near its edges."""
    for name, keys in FIGURES.items():
        values = [(step["step"], step[key]) for step in page.kept for key in keys if step[key] is not None]
        if not any(step[keys[0]] is not None for step in page.kept):
            assert page.run("return document.getElementById(arguments[0]).clientHeight", name) == 0
            continue
        places, width, height = page.run(
            "const p = PICTURES.find(p => p.id === arguments[0]), w = p.canvas.clientWidth;"
            "return [arguments[1].map(([step, value]) => [xOf(step, w), p.scale.y(value)]), w, p.canvas.clientHeight]", name, values)
        (first, last), low, high = page.view(), min(v for _, v in values), max(v for _, v in values)
        top, floor = min(y for _, y in places), max(y for _, y in places)
        assert 20 <= top and floor <= height - 22 and (low == high or floor - top > 0.7 * (height - 42)), (name, top, floor, height)
        for (step, value), (x, y) in zip(values, places):
            assert abs(x - LEFT - (step - first) / (last - first) * (width - LEFT - RIGHT)) < 0.01, (name, step)
            assert low == high or abs(y - floor + (value - low) / (high - low) * (floor - top)) < 0.01, (name, step, value)


def check_hover(page):
    width = page.run("return document.getElementById('loss').clientWidth")
    first, last = page.view()
    for share in 0.1, 0.52, 0.97:
        x = round(LEFT + share * (width - LEFT - RIGHT))
        lines = page.hover("loss", x, 60).split("\n")
        at = first + (x - LEFT) / (width - LEFT - RIGHT) * (last - first)
        near = min(abs(step["step"] - at) for step in page.kept)
        step = next(step for step in page.kept if f"step {step['step']:,}" == lines[0])
        assert abs(step["step"] - at) <= near + (last - first) / width, (page.name, step, at)
        assert lines[1] == f"loss {loss_text(step['loss'])}", lines
        assert (f"evaluation {loss_text(step['eval_loss'])}" in lines) == (step["eval_loss"] is not None), lines
        assert f"{rate_text(step['tokens_per_s'])} tokens/s" in lines and f"{time(step['step_ns'])} a step" in lines, (lines, step)
        assert step["unix_s"] is None or f"{clock_text(step['unix_s'])} UTC" in lines, lines
        assert page.chosen() == step["step"]


def check_table(page):
    assert page.count() == len(page.kept)
    for row, step in zip(page.rows(), page.kept):
        assert row["step"] == f"{step['step']:,}" and row["loss"] == loss_text(step["loss"]) and row["tokens/s"] == rate_text(step["tokens_per_s"])
        assert row["step time"] == time(step["step_ns"])
        assert "tokens" not in row or row["tokens"] == f"{step['tokens']:,}" and row["time, UTC"] == clock_text(step["unix_s"])
        assert "learning rate" not in row or abs(float(row["learning rate"]) - step["lr"]) <= 6e-4 * step["lr"], (row, step)
        assert "evaluation" not in row or row["evaluation"] == ("-" if step["eval_loss"] is None else loss_text(step["eval_loss"]))
    page.run("[...document.querySelectorAll('#titles button')].find(b => b.textContent === 'tokens/s').click()")
    fastest = sorted((step["tokens_per_s"] for step in page.kept), reverse=True)
    rows = page.rows()  # once: the page may lay out more in between
    assert rows and [row["tokens/s"] for row in rows] == [rate_text(rate) for rate in fastest[: len(rows)]]
    page.find("#scroller").send_keys(Keys.ARROW_DOWN, Keys.ENTER)
    assert page.chosen() == next(step["step"] for step in page.kept if step["tokens_per_s"] == fastest[0])
    evaluations = [step for step in page.kept if step["eval_loss"] is not None]
    if evaluations:
        page.tab("evaluations")
        assert page.count() == len(evaluations) and page.rows()[0]["evaluation"] == loss_text(evaluations[0]["eval_loss"])
        page.tab("steps")
    else:
        assert not page.run("return document.querySelector('[data-tab=evaluations]')")


def check_keys(page):
    loss, kept = page.find("#loss"), [step["step"] for step in page.kept]
    page.mouse(["mouseMoved"], "title", 1, 1)  # left of what is drawn, also when the page is scrolled
    loss.send_keys(Keys.HOME)
    assert page.chosen() == kept[0]
    loss.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
    assert page.chosen() == kept[min(2, len(kept) - 1) - 1]
    evaluations = [step["step"] for step in page.kept if step["eval_loss"] is not None]
    if evaluations:
        loss.send_keys("e", "e")
        assert page.chosen() == [step for step in evaluations if step > kept[1]][1]
        loss.send_keys("E")
        assert page.chosen() == [step for step in evaluations if step > kept[1]][0]
    loss.send_keys(Keys.END)
    assert page.chosen() == kept[-1]
    whole = page.view()
    loss.send_keys("+", "+")
    first, last = page.view()
    assert last == whole[1] and abs((last - first) - max((whole[1] - whole[0]) / 4, min(4, whole[1] - whole[0]))) < 1e-6, (whole, first, last)
    assert page.count() == sum(first <= step <= last for step in kept)
    loss.send_keys("0")
    assert page.view() == whole
    width = page.run("return document.getElementById('rate').clientWidth")
    page.mouse(["mouseMoved", "mousePressed"], "rate", LEFT + 100, 50)
    page.mouse(["mouseMoved", "mouseReleased"], "rate", LEFT + 300, 50)
    if page.name in ("run", "many"):
        for found, x in zip(page.view(), (100, 300)):
            assert abs(found - whole[0] - x / (width - LEFT - RIGHT) * (whole[1] - whole[0])) <= (whole[1] - whole[0]) / width, (page.view(), whole)
    page.run("document.getElementById('to-all').click()")
    page.click("lr" if page.run("return document.getElementById('lr').clientHeight") else "rate", LEFT + 1, 50)
    assert page.chosen() - kept[0] <= 2 * (whole[1] - whole[0]) / width and page.view() == whole


def check_looks(page):
    """Both themes; lines differ in dashes and dots too; a logarithmic axis keeps the order and equal ratios equal."""
    colours = lambda: page.run("return getComputedStyle(document.body).backgroundColor + css(PICTURES[0].lines[0].colour)")
    light = colours()
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    assert colours() != light
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert page.run("const [a, b] = PICTURES[0].lines; return a.dash.length === 0 && b.dash.length > 0 && b.dots")
    legend = page.texts("#legend li")
    steps = page.steps
    assert legend == ["loss"] + ["evaluation"] * any(step["eval_loss"] is not None for step in steps) \
        + ["not finite"] * any(step["loss"] is None for step in steps) + ["resumed"] * (page.name == "json"), legend
    page.run("document.getElementById('logarithmic').click()")
    one, two, four = page.run("return [1, 2, 4].map(v => PICTURES[0].scale.y(v * steps[0].loss))")
    assert abs((one - two) - (two - four)) < 1e-6 and one > two
    page.run("document.getElementById('logarithmic').click()")


def check_extremes(tool, driver):
    """Of a run whose first loss is not finite the picture has a cross alone; the axes of figures that differ in their last
    bit end, and zero has no sign."""
    for name, log in (("first", '{"step":1,"loss":null}'), ("rate", '{"step":1,"loss":null,"lr":1e-4,"tokens_per_s":7}'),
                      ("equal", '{"step":1,"loss":9007199254740990,"tokens_per_s":0}\n{"step":2,"loss":9007199254740991,"tokens_per_s":9}')):
        with open(f"{name}.jsonl", "w", encoding="ascii") as file:
            file.write(log + "\n")
        tool.must("dump", f"{name}.jsonl", "--format", "html", "-o", f"{name}.html")
        page = RunPage(driver, name)
        count = len(page.steps)
        assert page.text("#subtitle") == f"{count} step{'s' * (count > 1)}"
        assert "-0" not in page.run("return PICTURES.map(p => p.scale.ticks.map(p.text)).flat()"), name
        if name != "equal":
            assert page.texts("#legend li") == ["loss", "not finite"] and page.text("#cursor").startswith("step 1; loss not finite")
            assert page.rows()[0]["loss"] == "not finite"
        page.check_quiet()


def main():
    tools = os.path.abspath(sys.argv[1])
    with scratch():
        tool = make_logs(tools, NAMES)
        driver = start()
        try:
            for name in NAMES:
                page = RunPage(driver, name)
                check_figures(page)
                check_places(page)
                check_hover(page)
                check_table(page)
                check_keys(page)
                check_looks(page)
                page.check_quiet()
            check_extremes(tool, driver)
        finally:
            driver.quit()


main()

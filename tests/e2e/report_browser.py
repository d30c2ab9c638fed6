# SPDX-License-Identifier: Apache-2.0
"""The report in Chromium: no message in the console, no request, few elements; figures, tables and boxes are those of
--format json; pointing, clicks, filters and keys do what the page says, in light and dark.

    report_browser.py TOOLS"""
import json
import os
import sys
import tempfile

from browser import LEFT, RIGHT, Page, size, start, time
from report_overlay import check_equal, check_overlay
from report_page import HOSTILE, PLANS, STRETCHED, clocks_of, make_plans, positions_of
from selenium.webdriver.common.keys import Keys


class PlanPage(Page):
    """Of a plan, and of another one laid over it."""

    def __init__(self, driver, call, plan, other=None, name=None):
        view = lambda of, *options: json.loads(call("dump", f"{of}.plan", *options, "--format", "json"))
        self.plan, self.other = plan, other
        self.summary = view(plan)
        self.memory = view(plan, "--memory")
        self.commands = view(plan, "--schedule")["schedule"]
        self.decisions = view(plan, "--why", "*")["why"]
        if other:
            self.other_summary, self.other_commands = view(other), view(other, "--schedule")["schedule"]
            self.diff = view(plan, "--diff", f"{other}.plan")
        self.view = lambda *options: view(plan, *options)
        super().__init__(driver, name or plan)

    def positions(self):
        return positions_of(self.summary, self.commands)


def check_figures(page):
    said = page.run("return [...document.querySelectorAll('#figures dd')].map(d => [d.dataset.key, d.dataset.value, d.firstChild.textContent])")
    summary, seen = page.summary, set()
    for key, value, text in said:
        if key == "measured":
            continue
        assert str(summary[key]) == value or float(value) == summary[key], (key, value, summary[key])
        seen.add(key)
        if key.endswith("_bytes") and summary[key]:
            assert text == size(summary[key]), (key, text)
        elif key.endswith("_ns"):
            assert text == time(summary[key]), (key, text)
    assert {"budget_bytes", "arena_bytes", "peak_bytes", "static_bytes", "step_ns", "recomputed"} <= seen, seen
    assert ("exposed_ns" in seen) == ("mesh" in summary)
    systems = page.run("return [...document.querySelectorAll('#systems tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
    assert [row[:3] for row in systems] == [[m["system"], m["flags"] or "no recompute flags", time(m["step_ns"])]
                                           for m in summary["manuals"]], systems


def check_boxes(page):
    """Each buffer of a step has the rectangle of its lifespan and its place, from one corner of the picture to the other."""
    start, ends, end_of_step = page.positions()
    whole, own = page.run("return [axisEnd(), step.end]")
    boxes, width, height = page.run("const w = memoryCanvas.clientWidth, h = memoryCanvas.clientHeight;"
                                    "return [buffers.map(b => { const x = boxOf(b, w, h); return x && [x.x, x.y, x.width, x.height]; }), w, h]")
    assert len(boxes) == len(page.memory["buffers"])
    first = next(i for i, b in enumerate(page.memory["buffers"]) if b["offset"] == 0)
    floor = boxes[first][1] + boxes[first][3]
    top = max((i for i, box in enumerate(boxes) if box), key=lambda i: page.memory["buffers"][i]["offset"])
    scale = (floor - boxes[top][1] - boxes[top][3]) / page.memory["buffers"][top]["offset"]
    arenas = [page.summary["arena_bytes"], *([page.other_summary["arena_bytes"]] if page.other else [])]
    assert 0.5 * height < scale * max(arenas) < height, (scale, height)
    x_of = lambda ns: LEFT + ns / whole * (width - LEFT - RIGHT)
    compared = 0
    measured = page.run("return step.segments.reduce((sum, s) => sum + s.measured, 0)")
    assert own == end_of_step or page.name == "tiny" and own == max(measured, end_of_step)
    assert whole == max(own, positions_of(page.other_summary, page.other_commands)[2] if page.other else 0)
    for buffer, box in zip(page.memory["buffers"], boxes):
        if buffer["persistent"]:
            begin, end = 0, own
        elif buffer["born"] in start:
            begin = start[buffer["born"]]
            end = start[buffer["dies"]] if page.commands[buffer["dies"] - 1]["segment"] == page.commands[min(buffer["dies"], len(page.commands) - 1)]["segment"] \
                and buffer["dies"] in start else ends[page.commands[buffer["dies"] - 1]["segment"]]
        else:
            assert box is None, buffer
            continue
        expected = [x_of(begin), floor - (buffer["offset"] + buffer["bytes"]) * scale, x_of(end) - x_of(begin), buffer["bytes"] * scale]
        assert all(abs(a - b) < 0.01 for a, b in zip(box, expected)), (page.name, buffer, box, expected)
        compared += 1
    assert compared > 50
    exposed = sum(c["transfer"]["exposed_ns"] for c in page.commands if c["index"] in start and "transfer" in c)
    assert page.run("return step.waits.reduce((sum, w) => sum + w.end - w.begin, 0)") == exposed
    return boxes


def lives(buffer):
    return "all of the step" if buffer["persistent"] else f"commands {buffer['born']}-{buffer['dies'] - 1}"


def check_pointing(page, boxes):
    """The largest buffers at the peak, and commands."""
    decisions = {d["name"]: d for d in page.decisions}
    pointed = 0
    for resident in page.memory["residents_at_peak"]:
        x, y, width, height = boxes[resident["buffer"]]
        if width < 3 or height < 0.7 or pointed == 6:
            continue
        tip = page.hover("memory", x + width / 2, y + height / 2)
        lines = tip.split("\n")
        buffer = page.memory["buffers"][resident["buffer"]]
        assert lines[0] == resident["name"] and f"layer {buffer['layer'] if buffer['layer'] >= 0 else '-'}, {resident['class']}" in lines[1], tip
        assert f"= {resident['bytes']:,} B at {resident['offset']:,}" in lines[2] and lives(resident) in lines[3], tip
        decision = decisions.get(resident["name"]) or decisions.get(buffer["name"])
        assert lines[4] == ("decision: " + (f"{decision['action']} ({decision['reason']})" if decision else "none")), tip
        extra = resident["recompute_extra_ns"]
        assert resident["removal"] in lines[5] if extra is None else \
            f"{'-' if extra < 0 else '+'}{time(abs(extra))} a step" in lines[5], (tip, resident)
        pointed += 1
    assert pointed >= 3, (page.name, pointed)
    stream = page.run("const w = streamsCanvas.clientWidth, r = streamRows[0]; const c = step.commands.filter(c => !c.transfer)"
                      ".reduce((a, b) => a.estimated_ns > b.estimated_ns ? a : b); const s = streamSpan(r, c);"
                      "return [c.index, xOf((s[0] + s[1]) / 2, w), r.top + r.height / 2]")
    tip = page.hover("streams", *stream[1:])
    command = page.commands[stream[0]]
    assert f"{command['index']} {command['name']}\n" in tip and f"predicted {time(command['estimated_ns'])}" in tip, tip
    page.run("document.activeElement.blur()")


def check_links(page):
    """A row for each link; there the longest transfer, and the longest that waits, where their clocks say."""
    rows = {name: y for name, y in page.run("return streamRows.map(r => [r.id, r.top + r.height / 2])")}
    moved = [c for c in page.commands if "transfer" in c]
    assert {name for name in rows if name.startswith("transfers-")} == {f"transfers-{c['transfer']['axis']}" for c in moved}, rows
    spans, whole = clocks_of(page.summary, page.commands)[3], page.run("return axisEnd()")
    width = page.run("return streamsCanvas.clientWidth")
    for axis, waits in sorted({(c["transfer"]["axis"], "waits_for" in c["transfer"]) for c in moved if c["index"] in spans}):
        c = max((c for c in moved if (c["transfer"]["axis"], "waits_for" in c["transfer"]) == (axis, waits) and c["index"] in spans),
                key=lambda c: c["estimated_ns"])
        x = LEFT + sum(spans[c["index"]]) / 2 / whole * (width - LEFT - RIGHT)
        lines = page.hover("streams", x, rows[f"transfers-{axis}"]).split("\n")
        assert lines[0] == f"{c['index']} {c['name']}" and f"along {axis}: rank 0 sends {size(c['transfer']['sent_bytes'])}" in "\n".join(lines), lines
        order = {"starts with": c["transfer"]["group"] if c["transfer"]["group"] < c["index"] else None,
                 "waits for": c["transfer"].get("waits_for"), "complete before": c["transfer"].get("complete_before")}
        said = ", ".join(f"{word} command {at}" for word, at in order.items() if at is not None)
        assert not said or said in lines, (lines, said)
    page.run("document.activeElement.blur()")


def check_clicks(page):
    """Anywhere: who lives there."""
    width, height = page.run("return [memoryCanvas.clientWidth, memoryCanvas.clientHeight]")
    start, _, _ = page.positions()
    whole = page.run("return step.end")
    for share in (0.07, 0.35, 0.8):
        at = LEFT + share * (width - LEFT - RIGHT)
        page.click("memory", at, height - 40)
        command = page.cursor()
        assert start[command] <= share * whole + whole / width, (command, share)
        later = [s for s in start.values() if s > start[command]]
        assert not later or min(later) >= share * whole - whole / width, (command, share)
        live = page.view("--at", str(command))["residents"]
        assert page.count() == len(live) and f"command {command} " in page.text("#tabs [aria-selected=true]"), (page.count(), len(live))
        largest = sorted(live, key=lambda b: -b["bytes"])[: len(page.rows())]
        assert [row["bytes"] for row in page.rows()] == [size(b["bytes"]) for b in largest]
        assert page.rows()[0]["bytes"] == size(largest[0]["bytes"]) and page.commands[command]["name"] in page.text("#cursor")


def check_tables(page):
    page.tab("decisions")
    assert page.count() == len(page.decisions)
    for row, d in zip(page.rows(), page.decisions):
        assert (row["value"], row["scope"], row["action"], row["op"], row["reason"]) == (d["name"], d["scope"], d["action"], d["op"], d["reason"])
        assert row["bytes"] == size(d["bytes"]) and row["recomputed in"] == (time(d["recompute_ns"]) if d["recompute_ns"] else "-")
    layers = sorted({d["layer"] for d in page.decisions if d["layer"] >= 0})
    middle = layers[len(layers) // 2]
    page.choose("layers", f"{middle}-{middle + 1}, -")
    assert page.count() == sum(d["layer"] in (-1, middle, middle + 1) for d in page.decisions) > 0
    page.choose("layers", "")
    page.choose("scope", "*mlp*")
    assert page.count() == sum("mlp" in d["scope"] for d in page.decisions) > 0
    for action in {d["action"] for d in page.decisions} if len({d["action"] for d in page.decisions}) > 1 else []:
        page.choose("action", action)
        assert page.count() == sum("mlp" in d["scope"] and d["action"] == action for d in page.decisions)
    page.tab("commands")
    assert page.count() == len(page.commands)
    page.run("[...document.querySelectorAll('#titles button')].find(b => b.textContent === 'predicted').click()")
    slowest = sorted((c["estimated_ns"] for c in page.commands), reverse=True)
    assert [row["predicted"] for row in page.rows()] == [time(ns) for ns in slowest[: len(page.rows())]]
    page.run("document.getElementById('scroller').scrollTop = 1e9")
    page.run("tabs.draw()")
    assert page.rows()[-1]["predicted"] == time(slowest[-1])
    page.tab("kernels")
    page.run("document.querySelector('#rows tr:not(.space)').click()")
    assert page.text("#more").startswith(page.rows()[0]["kernel"])
    transfers = [c for c in page.commands if "transfer" in c]
    if transfers:
        page.tab("transfers")
        assert page.count() == len(transfers)
        for row, c in zip(page.rows(), transfers):
            moved = c["transfer"]
            assert (row["command"], row["axis"], row["sent"], row["exposed"]) == \
                (str(c["index"]), moved["axis"], size(moved["sent_bytes"]), time(moved["exposed_ns"])), row
            assert row["with command"] == (str(moved["group"]) if moved["group"] < c["index"] else "-"), row
            assert [row["waits for"], row["complete before"]] == [str(moved.get(key, "-")) for key in ("waits_for", "complete_before")], row
        first = page.run("return transfers.findIndex((t) => (t.waits_for ?? null) !== null)")
        assert (first >= 0) == (page.name in STRETCHED), (page.name, first)
    else:
        assert not page.run("return document.querySelector('[data-tab=transfers]')")


def check_keys(page):
    memory, peak = page.find("#memory"), page.summary["peak_command"]
    memory.send_keys("p")
    assert page.cursor() == peak and "; the peak" in page.text("#cursor")
    memory.send_keys(Keys.ARROW_RIGHT)
    assert page.cursor() == peak + 1
    memory.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert page.cursor() == peak - 1
    memory.send_keys(Keys.ARROW_UP)
    first = page.run("return state.buffer")
    assert not first["persistent"] and page.text("#tip").split("\n")[2].endswith(f" at {first['offset']:,}"), first
    memory.send_keys(Keys.ARROW_UP)
    assert page.run("return state.buffer")["offset"] > first["offset"]
    memory.send_keys("+", "+")
    assert page.run("return (state.view.end - state.view.begin) / step.end") == 0.25
    memory.send_keys("0", Keys.HOME)
    assert page.run("return state.view") == {"begin": 0, "end": page.run("return step.end"), "bytes": None}
    assert page.commands[page.cursor()]["segment"] == page.summary["entries"]["train"][0]["segment"]
    page.tab("commands")
    page.find("#scroller").send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert page.run("return tabs.chosen") == 1
    page.choose("phase", "backward")
    page.find("#scroller").send_keys(Keys.END, Keys.ENTER)
    assert page.commands[page.cursor()]["phase"] == "backward"
    page.run("document.getElementById('axis').value = 'commands'; document.getElementById('axis').onchange()")
    assert page.run("return axisEnd()") == len(page.positions()[0])
    page.run("document.getElementById('axis').value = 'time'; document.getElementById('axis').onchange()")


COLOURS = ("const copy = document.createElement('canvas'), [w, h] = [copy.width, copy.height] = [memoryCanvas.width, memoryCanvas.height];"
           "const c = copy.getContext('2d', {willReadFrequently: true}); c.drawImage(memoryCanvas, 0, 0);"
           "const d = c.getImageData(0, 0, w, h).data, found = new Set();"
           "for (let i = 0; i < d.length; i += 4) found.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);"
           "return [found.size, getComputedStyle(document.body).backgroundColor]")


def check_marks(page):
    """What is chosen is outlined where it lies: the only thing drawn there, but for the cursor."""
    page.run("document.activeElement.blur()")
    width, height = page.run("return [memoryCanvas.clientWidth, memoryCanvas.clientHeight]")
    largest = max((b for b in page.memory["buffers"] if not b["persistent"] and b["born"] <= page.summary["peak_command"] < b["dies"]),
                  key=lambda b: b["bytes"] * (b["dies"] - b["born"]))
    index = page.memory["buffers"].index(largest)
    box = page.run("leave(); tabs.show('live'); showBuffer(buffers[arguments[0]]); state.hover = null; drawMarks();"
                   "const b = boxOf(buffers[arguments[0]], arguments[1], arguments[2]); return [b.x, b.y, b.width, b.height]", index, width, height)
    rows = page.run("const m = document.getElementById('memory-mark'), copy = document.createElement('canvas');"
                    "[copy.width, copy.height] = [m.width, m.height]; const c = copy.getContext('2d', {willReadFrequently: true}); c.drawImage(m, 0, 0);"
                    "const x = Math.round(arguments[0] * m.width / m.clientWidth), d = c.getImageData(x, 0, 1, m.height).data, found = [];"
                    "for (let y = 0; y < m.height; y++) if (d[4 * y + 3]) found.push(y * m.clientHeight / m.height); return found",
                    box[0] + box[2] * 0.5 if abs(page.run("return xOf(beginOf(state.at), arguments[0])", width) - box[0] - box[2] * 0.5) > 9
                    else box[0] + box[2] * 0.25)
    assert rows and abs(min(rows) - box[1]) <= 2 and abs(max(rows) - box[1] - max(box[3], 2)) <= 2, (page.name, rows, box)


def check_looks(page):
    """Something is drawn in both; classes differ in letter and pattern too."""
    light = page.run(COLOURS)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    dark = page.run(COLOURS)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert light[0] > 20 and dark[0] > 20 and light[1] != dark[1], (light, dark)
    legend = page.texts("#legend li")
    classes = {b["class"] for b in page.memory["buffers"]}
    assert classes == {text[2:] for text in legend if text != "live bytes"}, legend
    assert page.run("return new Set(CLASSES.map(c => c[1])).size * 100 + new Set(CLASSES.map(c => c[2])).size") == 707


def check_visible(page):
    """No box is too thin to be seen: where its middle is, the picture is not free."""
    hidden, boxes = page.run(
        "const copy = document.createElement('canvas'), [w, h] = [copy.width, copy.height] = [memoryCanvas.width, memoryCanvas.height];"
        "const c = copy.getContext('2d', {willReadFrequently: true}); c.drawImage(memoryCanvas, 0, 0);"
        "const d = c.getImageData(0, 0, w, h).data, ratio = w / memoryCanvas.clientWidth, free = css('--free');"
        "const at = (x, y) => { const i = 4 * (Math.floor(y * ratio) * w + Math.floor(x * ratio));"
        "return '#' + [0, 1, 2].map(k => d[i + k].toString(16).padStart(2, '0')).join(''); };"
        "const boxes = stepBuffers.map(b => boxOf(b, memoryCanvas.clientWidth, memoryCanvas.clientHeight)).filter(Boolean);"
        "return [boxes.filter(b => at(b.x + b.width / 2, b.y + b.height / 2) === free).length, boxes.length]")
    assert boxes > 50 and hidden == 0, (page.name, hidden, boxes)


def check_beside(page):
    """A curve, and measured times beside the predicted ones."""
    assert page.run("return streamRows.map(r => r.id)").count("measured") == (page.name == "tiny")
    assert page.run("return document.getElementById('curve-section').hidden") == (page.name == "parts")
    if page.name == "tiny":
        with open("trace.json", encoding="utf-8") as file:
            runs = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
        page.tab("commands")
        page.choose("segment", "step")
        for row in page.rows():
            took = [e["dur"] * 1000 for e in runs if e["args"]["command"] == int(row["command"])]
            assert row["measured"] == time(round(sum(took) / len(took))), row
        last = runs[-len({e["args"]["command"] for e in runs}):]
        whole = max(e["ts"] + e["dur"] for e in last) - last[0]["ts"]
        value = float(page.run("return document.querySelector('[data-key=measured]').dataset.value"))
        assert abs(value - 1000 * whole) <= 2, (value, whole)
        with open("curve.json", encoding="utf-8") as file:
            points = json.load(file)["points"]
        page.find("#curve").send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
        assert page.text("#curve-said").startswith(f"{size(points[1]['budget'])}: {time(points[1]['time'])} a step"), page.text("#curve-said")


def check_hostile(page):
    assert page.text("#title") == HOSTILE and page.driver.title.startswith(HOSTILE[:8])
    page.tab("decisions")
    page.choose("find", HOSTILE)
    assert page.rows()[0]["value"] == HOSTILE
    assert page.run("return document.scripts.length") == 2


def main():
    tools = os.path.abspath(sys.argv[1])
    os.chdir(tempfile.mkdtemp())
    call = make_plans(tools)
    driver = start()
    try:
        for name in PLANS:
            page = PlanPage(driver, call, name)
            check_figures(page)
            boxes = check_boxes(page)
            check_pointing(page, boxes)
            check_links(page)
            check_clicks(page)
            check_tables(page)
            check_keys(page)
            check_marks(page)
            check_beside(page)
            check_looks(page)
            check_visible(page)
            page.check_quiet()
            page = PlanPage(driver, call, name, f"{name}-other", f"{name}-diff")
            check_figures(page)
            check_overlay(page, check_boxes(page))
            page.check_quiet()
        page = PlanPage(driver, call, "tiny", "tiny", "itself")
        check_equal(page)
        page.check_quiet()
        page = PlanPage(driver, call, "hostile")
        check_hostile(page)
        page.check_quiet()
    finally:
        driver.quit()


main()

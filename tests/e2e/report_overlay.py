# SPDX-License-Identifier: Apache-2.0
"""Another plan laid over a report, in Chromium: the numbers are those of --diff and of the other plan's views."""
from browser import LEFT, RIGHT, size, time
from report_page import positions_of
from selenium.webdriver.common.keys import Keys

SHOWN = {"ns": time, "bytes": size, "count": lambda count: f"{count:,}"}
SAVED = "not decided"


def percent(value, than):
    return f"{value / than - 1:+.2%}".replace("%", " %")


def check_sentence(page):
    said = page.text("#difference")
    for key, text, words in [("step_ns", time, ("shorter", "longer")), ("peak_bytes", size, ("lower", "higher"))]:
        here, there = page.summary[key], page.other_summary[key]
        assert here != there and f"{text(abs(here - there))} {words[here > there]} ({percent(here, there)})" in said, said
    assert f"{len(page.diff['decisions']):,} values" in said and f"{len(page.diff['kernels']):,} kernels" in said, said


def check_others_figures(page):
    said = page.run("return [...document.querySelectorAll('#figures dd')].map(d => [d.dataset.key, d.dataset.other, d.lastChild.textContent.replaceAll('\\u00a0', ' ')])")
    for key, value, text in said:
        there = page.other_summary.get(key)
        assert (value is None) == (there is None) and (there is None or float(value) == there), (key, value, there)
        if there and key.endswith(("_bytes", "_ns")):
            shown = (size if key.endswith("_bytes") else time)(there)
            here = page.summary[key]
            assert text == f"other {shown}" + (f", this {percent(here, there)}" if here not in (0, there) else ""), (key, text)
    assert {"step_ns", "peak_bytes", "budget_bytes", "arena_bytes", "recomputed"} <= {key for key, value, _ in said if value is not None}


def rows_of_runs(page):
    return [(run, value) for run in page.diff["by_layers"] for value in run["values"]]


def pair_of(row, one):
    """Cells that the tables of differing values share."""
    recomputed = [time(one[key]) if one[key] else "-" for key in ("this_recompute_ns", "other_recompute_ns")]
    return (row["bytes"], row["recomputed in"], row["other in"]) == (size(one["bytes"]), *recomputed)


def check_runs(page):
    """By runs of layers; Enter shows the values of a run."""
    page.tab("runs")
    runs = rows_of_runs(page)
    assert page.count() == len(runs) > 3
    for row, (run, value) in zip(page.rows(), runs):
        assert (row["value"], row["values"]) == (value["name"], f"{value['count']:,}") and pair_of(row, value), row
        assert (row["this plan"], row["other plan"]) == (run["this"] or SAVED, run["other"] or SAVED), row
        layers = [layer for part in row["layers"].split(",") if part != "-"
                  for layer in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)]
        assert layers == run["layers"], row
    layer = next(run["layers"][0] for run, _ in runs if run["layers"])
    page.choose("layers", str(layer))
    assert page.count() == sum(layer in run["layers"] for run, _ in runs)
    page.choose("layers", "")
    page.find("#scroller").send_keys(Keys.HOME, Keys.ENTER)
    run, value = runs[0]
    assert page.text("#tabs [aria-selected=true]").startswith("Differing values") and page.count() == value["count"], value
    assert {row["layer"] for row in page.rows()} <= {str(layer) for layer in run["layers"]} | {"-"}


def check_values(page):
    page.choose("find", "")
    page.choose("layers", "")
    for side in ("this plan", "other plan"):
        if page.run("return Boolean(document.querySelector(`[data-filter='${arguments[0]}']`))", side):
            page.choose(side, "")
    decisions = {d["name"]: d for d in page.diff["decisions"]}
    assert page.count() == len(decisions)
    assert sorted(page.run("return tabs.rows.map(r => r.name)")) == sorted(decisions)
    for row in page.rows():
        d = decisions[row["value"]]
        assert (row["this plan"], row["other plan"]) == (d["this"] or SAVED, d["other"] or SAVED) and pair_of(row, d), row
    actions = {d["this"] or SAVED for d in page.diff["decisions"]}
    for action in actions if len(actions) > 1 else []:
        page.choose("this plan", action)
        assert page.count() == sum((d["this"] or SAVED) == action for d in page.diff["decisions"]), action
    page.choose("this plan", "") if len(actions) > 1 else None
    page.run("[...document.querySelectorAll('#titles button')].find(b => b.textContent === 'bytes').click()")
    largest = sorted((d["bytes"] for d in page.diff["decisions"]), reverse=True)
    assert [row["bytes"] for row in page.rows()] == [size(b) for b in largest[: len(page.rows())]]


def check_kernels_and_costs(page):
    page.tab("different-kernels")
    assert page.count() == len(page.diff["kernels"])
    for row, k in zip(page.rows(), page.diff["kernels"]):
        assert (row["kernel"], row["commands"], row["in a step"], row["other's"]) == \
            (k["kernel"], f"{k['this_count']:,}", time(k["this_ns"]), time(k["other_ns"])), (row, k)
        more = k["this_count"] - k["other_count"]
        assert row["more"] == (f"{more:+,}" if more else "-"), row
    page.tab("costs")
    costs, settings = page.diff["costs"], page.diff["settings"]
    assert page.count() == len(costs) + len(settings)
    rows = {(row["kind"], row["name"]): row for row in page.rows()}
    for cost in costs:
        text = lambda value, unit=SHOWN[cost["unit"]]: unit(value) if value else "-"
        row = rows["cost", cost["name"]]
        assert (row["this plan"], row["other plan"]) == (text(cost["this"]), text(cost["other"])), row
        apart = cost["this"] - cost["other"]
        assert row["difference"] == ("-" if apart < 0 else "+") + SHOWN[cost["unit"]](abs(apart)), row
    for setting in settings:
        row = rows["setting", setting["name"]]
        assert (row["this plan"], row["other plan"]) == (setting["this"], setting["other"]), row


def check_outline(page, boxes):
    """The other plan's live bytes, by column of pixels; its peak and its budget where they belong."""
    start, ends, _ = positions_of(page.other_summary, page.other_commands)
    width, height, whole, most = page.run("return [memoryCanvas.clientWidth, memoryCanvas.clientHeight, axisEnd(), mostLive(other, memoryCanvas.clientWidth)]")
    inside = [c for c in page.other_commands if c["index"] in start]
    follow = {c["index"]: start[d["index"]] if d["segment"] == c["segment"] else ends[c["segment"]] for c, d in zip(inside, inside[1:])}
    x_of = lambda ns: LEFT + ns / whole * (width - LEFT - RIGHT)
    ranges = [(x_of(start[c["index"]]), x_of(follow.get(c["index"], ends[c["segment"]])), c["live_bytes"]) for c in inside]
    compared = 0
    for column in range(LEFT, width - RIGHT, 7):
        sure = [live for begin, end, live in ranges if begin < column + 0.99 and end > column + 0.01]
        near = [live for begin, end, live in ranges if begin < column + 1.01 and end > column - 0.01]
        if sure:
            assert max(sure) <= most[column] <= max(near), (page.name, column, most[column], max(sure), max(near))
            compared += 1
    assert compared > 50 and max(each or 0 for each in most) == page.other_summary["peak_bytes"]
    first = next(i for i, b in enumerate(page.memory["buffers"]) if b["offset"] == 0)
    top = max((i for i, box in enumerate(boxes) if box), key=lambda i: page.memory["buffers"][i]["offset"])
    floor = boxes[first][1] + boxes[first][3]
    scale = (floor - boxes[top][1] - boxes[top][3]) / page.memory["buffers"][top]["offset"]
    drawn = page.run(
        "leave(); const w = memoryCanvas.width, h = memoryCanvas.height, copy = document.createElement('canvas'); copy.width = w; copy.height = h;"
        "const c = copy.getContext('2d', {willReadFrequently: true}); c.drawImage(memoryCanvas, 0, 0);"
        "const d = c.getImageData(0, 0, w, h).data, ratio = w / memoryCanvas.clientWidth, colour = parseInt(css('--other').slice(1), 16);"
        "const is = (x, y) => { const i = 4 * (y * w + x); return (d[i] << 16 | d[i + 1] << 8 | d[i + 2]) === colour; };"
        "return arguments[0].map(([x, y]) => [-2, -1, 0, 1, 2].some(k => is(Math.round((x + 0.5) * ratio), Math.round(y * ratio) + k)));",
        [[x, floor - most[x] * scale] for x in range(LEFT + 2, width - RIGHT - 2) if len(most) > x and most[x] is not None])
    assert sum(drawn) > 0.5 * len(drawn) > 25, (page.name, sum(drawn), len(drawn))  # it is dashed
    limit = page.other_summary["budget_bytes"] - page.other_summary["reserve_bytes"]
    if limit > 0:
        assert page.run("return limitOf(other)") == limit
        assert abs(page.run("return yOf(limitOf(other), memoryCanvas.clientHeight)") - (floor - limit * scale)) < 0.5


def check_streams(page):
    """Both plans' streams, from the same beginning."""
    rows = page.run("return streamRows.map(r => [r.id, r.top + r.height / 2])")
    assert [name for name, _ in rows][0] == "computation" and "other" in dict(rows), rows
    assert {name for name, _ in rows if name.startswith("other-transfers-")} == \
        {f"other-transfers-{c['transfer']['axis']}" for c in page.other_commands if "transfer" in c}, rows
    start, _, _ = positions_of(page.other_summary, page.other_commands)
    whole, width = page.run("return [axisEnd(), streamsCanvas.clientWidth]")
    inside = [c for c in page.other_commands if c["index"] in start and "transfer" not in c]
    longest = max(inside, key=lambda c: c["estimated_ns"])
    x = LEFT + (start[longest["index"]] + longest["estimated_ns"] / 2) / whole * (width - LEFT - RIGHT)
    tip = page.hover("streams", x, dict(rows)["other"])
    assert tip.startswith(f"other plan: {longest['index']} {longest['name']}\n") and f"predicted {time(longest['estimated_ns'])}" in tip, tip
    exposed = sum(c["transfer"]["exposed_ns"] for c in page.other_commands if c["index"] in start and "transfer" in c)
    assert page.run("return other.waits.reduce((sum, w) => sum + w.end - w.begin, 0)") == exposed


def check_cursor(page):
    """What both do at the same time, by key, click and pointer."""
    start, _, _ = positions_of(page.other_summary, page.other_commands)
    mine, _, end = page.positions()
    peak = page.other_summary["peak_command"]
    page.find("#memory").send_keys("o")
    at = page.cursor()
    assert at == max((c for c in mine if mine[c] <= start[peak]), key=lambda c: (mine[c], c)) or start[peak] >= end, (at, peak)
    page.run("document.activeElement.blur()")
    whole, width, height = page.run("return [axisEnd(), memoryCanvas.clientWidth, memoryCanvas.clientHeight]")
    for share in (0.2, 0.5):
        page.click("memory", LEFT + share * (width - LEFT - RIGHT), height - 40)
        command = page.cursor()
        there = max((c for c in start if start[c] <= mine[command]), key=lambda c: (start[c], c))
        live = page.other_commands[there]["live_bytes"]
        apart = live - page.commands[command]["live_bytes"]
        assert page.text("#cursor-other") == f"other plan then: {size(live)} live, {'-' if apart < 0 else '+'}{size(abs(apart))}, at command {there}", \
            (page.text("#cursor-other"), live, there)
    assert "other plan then: " in page.hover("memory", LEFT + 0.5 * (width - LEFT - RIGHT), 30)
    page.run("document.activeElement.blur()")


def check_overlay(page, boxes):
    check_sentence(page)
    check_others_figures(page)
    check_outline(page, boxes)
    check_streams(page)
    check_runs(page)
    check_values(page)
    check_kernels_and_costs(page)
    check_cursor(page)


def check_equal(page):
    """A plan and itself."""
    assert page.text("#difference") == "Beside another plan: nothing differs."
    assert page.run("return TABS.map(t => t.id)")[0] == "live" and page.run("return COMPARED.every(t => !t.rows().length)")
    assert page.run("return JSON.stringify(mostLive(step, 999)) === JSON.stringify(mostLive(other, 999))")

# SPDX-License-Identifier: Apache-2.0
"""What the tests of the report share: plans to report on, and the data in a page as the views' JSON."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import TEXT, Tools, must, run

HOSTILE = "</script><script>alert(1)</script><!-- \" ' & \u2026 <b>"
PLANS = {  # options of remat-graph, and of remat-compile
    "tiny": (["gpt2-tiny", "--batch", "4"], ["--budget", "143MB"]),
    "parts": (["bert-tiny", "--batch", "8"], ["--mesh", "dp=2,tp=2", "--zero", "3", "--microbatches", "2", "--sequence-parallel", "--ac-mode", "full"]),
    "large": (["gpt3-175b", "--batch", "128", "--seq", "2048", "--dtype", "bf16"],
              ["--target", "h100-sxm", "--mesh", "dp=16,tp=8", "--zero", "3", "--sequence-parallel", "--recompute-granularity", "full",
               "--recompute-method", "block", "--recompute-num-layers", "34"]),
}
OTHERS = {  # options of the plan that --diff compares with
    "tiny": ["--budget", "141MB"],
    "parts": ["--mesh", "dp=2,tp=2", "--sequence-parallel", "--budget", "141MB"],
    "large": ["--target", "h100-sxm", "--mesh", "dp=16,tp=8", "--zero", "3", "--sequence-parallel", "--recompute-granularity", "full",
              "--recompute-method", "block", "--recompute-num-layers", "60", "--save", "h.3?.mlp.act"],
}
STRETCHED = ("parts",)  # their transfers are in flight for as long as they can, and wait for one another
UNSEEN = ("operands", "flops", "moved_bytes")  # of commands, what the page does not show
VIEWS = {"memory": ["--memory"], "schedule": ["--schedule"], "kernels": ["--kernels"], "placement": ["--placement"], "why": ["--why", "*"]}
LARGEST = 5_000_000
DATA = r'<script type="application/json" id="(?:plan|run)">(.*?)</script>'
BESIDE = {"tiny": ["--curve", "curve.json", "--with", "trace.json"], "large": ["--curve", "curve.csv"]}


def make_plans(tools, names=(*PLANS, "hostile")):
    """Into the working folder, with a report of each, and of each laid over by another; "tiny" is always among them."""
    tool = Tools(tools)
    call = tool.text
    for name in PLANS.keys() & {"tiny", *names}:
        graph, options = PLANS[name]
        call("graph", *graph, "-o", f"{name}.fbs")
        call("compile", f"{name}.fbs", *options, "-o", f"{name}.plan")
        call("compile", f"{name}.fbs", *OTHERS[name], "-o", f"{name}-other.plan")
        if name in STRETCHED:
            must(run([tool.folder.parent / "tests/e2e/stretch", f"{name}.plan"]))
    quoted = json.dumps(HOSTILE, ensure_ascii=False)
    text = call("dump", "tiny.fbs", "--text").replace("%h.1.mlp.act ", f"%{quoted} ")
    with open("hostile.graph", "w", encoding="utf-8") as out:
        out.write(text.replace('graph "gpt2-tiny"', f"graph {quoted}"))
    call("compile", "hostile.graph", "-o", "hostile.plan")
    call("compile", "tiny.fbs", "--curve", "curve.csv")
    call("compile", "tiny.fbs", "--curve", "curve.json")
    call("run", "tiny.plan", "--text", TEXT, "--steps", "3", "--trace", "trace.json")
    for name in names:
        call("dump", f"{name}.plan", "--format", "html", *BESIDE.get(name, []), "-o", f"{name}.html")
        if name in PLANS:
            call("dump", f"{name}.plan", "--diff", f"{name}-other.plan", "--format", "html", "-o", f"{name}-diff.html")
    call("dump", "tiny.plan", "--diff", "tiny.plan", "--format", "html", "-o", "itself.html")
    return call


def positions_of(summary, commands):
    """By command of a step, when computation comes to it; by segment, its end; the end of all: as clocks_of."""
    return clocks_of(summary, commands)[:3]


def clocks_of(summary, commands):
    """These, and by transfer when it begins and ends: a clock for each axis, as of docs/ranks.md."""
    start, ends, now, spans = {}, {}, 0, {}
    for name in dict.fromkeys(call["segment"] for call in summary["entries"]["train"]):
        inside = [c for c in commands if c["segment"] == name]
        last = {c["transfer"]["group"]: c["index"] for c in inside if "transfer" in c}
        links, due = {}, {}
        for command in inside:
            now = max(now, due.get(command["index"], 0))
            start[command["index"]] = now
            if "transfer" not in command:
                now += command["estimated_ns"]
                continue
            moved = command["transfer"]
            begin = max(links.get(moved["axis"], now), now, spans.get(moved.get("waits_for"), (0, 0))[1])
            link = links[moved["axis"]] = begin + command["estimated_ns"]
            spans[command["index"]] = begin, link
            before = moved.get("complete_before", last[moved["group"]] + 1)
            due[before] = max(link, due.get(before, 0))
        now = max(now, due.get(inside[-1]["index"] + 1, 0))
        ends[name] = now
    return start, ends, now, spans


def data_of(page):
    return json.loads(re.search(DATA, page, re.S)[1])


def check_text(name, page):
    """Nothing but the data depends on the plan or the log, and nothing is fetched."""
    assert len(page) < LARGEST, (name, len(page))
    assert page.isascii(), name
    assert page.count("<script") == page.count("</script>") == 2, name
    template = page.replace(re.search(DATA, page, re.S)[1], "")
    for word in ("://", "src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest", "innerHTML", "eval("):
        assert word not in template, (name, word)
    assert "default-src 'none'" in template
    return template


def column_of(column, texts):
    form = next(form for form in ("texts", "values", "objects", "lists") if form in column)
    cells = column[form]
    if "runs" in column:
        cells = [cell for cell, run in zip(cells, column["runs"], strict=True) for _ in range(run)]
    if form == "texts":
        return [None if cell is None else texts[cell] for cell in cells]
    if form == "values":
        return cells
    inner = iter(table_of(column["of"], texts))
    if form == "objects":
        return [None if cell is None else next(inner) for cell in cells]
    return [None if cell is None else [next(inner) for _ in range(cell)] for cell in cells]


def table_of(table, texts):
    columns = {key: column_of(column, texts) for key, column in table["columns"].items()}
    assert all(len(cells) == table["rows"] for cells in columns.values())
    return [dict(zip(columns, row)) for row in zip(*columns.values())] if columns else [{}] * table["rows"]


def unpacked(value, texts):
    if not isinstance(value, dict):
        return value
    return table_of(value, texts) if "columns" in value else {key: unpacked(inner, texts) for key, inner in value.items()}


def without_nulls(value):
    """As the page has null for a key that an object lacks."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value

# SPDX-License-Identifier: Apache-2.0
"""Plans beside those of PyTorch's partitioner, as tables and a picture.

    partitioner_tables.py RESULTS [--output docs/benchmarks.md]

RESULTS is a folder that tests/peers/partitioners.py has written, or docs/tables/partitioners.json. Prints Markdown; with
--output the tables go to docs/tables/partitioners.md, their summary into docs/benchmarks.md, the results to
docs/tables/partitioners.json, and the picture to docs/partitioners.svg."""
import argparse
import collections
import json
import os
import pathlib

from tables import commit, markdown, publish, read, replace

NAME = "partitioners"
TITLE = "Plans beside PyTorch's partitioner"
OPERATORS = ".operators"
SLOWER_POINTS = 0.3
SOLVERS = ("dp", "ilp")  # of PyTorch's settings below 0.9 these two are counted
ALL = {"--settings": ["0.1", "0.3", "0.5", "0.7", "0.9"], "--solvers": ["dp", "ilp", "greedy"], "--beside": []}
HEAD = ["at the peak of", "GB", "theirs %", "remat %", "less", "remat's GB", "gap %"]

# A plan of PyTorch's beside remat's at its peak; times in % over the joint graph that is not cut.
Pair = collections.namedtuple("Pair", "who peak_bytes theirs ours ours_bytes gap")


def results_of(path):
    """{model: rows}"""
    if path.is_file():
        return json.loads(path.read_text())
    return {file.name.removesuffix(".json"): json.loads(file.read_text()) for file in sorted(path.glob("*.json"))}


def pairs_of(rows):
    """By falling peak; rivals with the same plan are one."""
    uncut = next(row["measured"]["seconds"] for row in rows if row["who"] == "uncut")
    ours = {row["at_bytes"]: row for row in rows if row["who"] == "remat"}
    rivals = collections.defaultdict(list)
    for row in rows:
        if row["who"] not in ("uncut", "remat"):
            rivals[row["code"]].append(row)

    def percent(row):
        return 100 * (row["measured"]["seconds"] / uncut - 1)

    def pair(same):
        first, peak = same[0], same[0]["measured"]["peak_bytes"]
        mine = ours.get(peak)
        made = mine and "measured" in mine
        return Pair([row["who"] for row in same], peak, percent(first), percent(mine) if made else None,
                    mine["measured"]["peak_bytes"] if made else None,
                    100 * (mine["time_ns"] / mine["bound_ns"] - 1) if made else None)
    return sorted(map(pair, rivals.values()), key=lambda one: -one.peak_bytes)


def names(who):
    """dp 0.1, dp 0.3, ilp 0.3 as `dp 0.1 0.3, ilp 0.3`."""
    settings = collections.defaultdict(list)
    for one in who:
        name, _, setting = one.partition(" ")
        settings[name].append(setting)
    return ", ".join(" ".join([name, *filter(None, found)]) for name, found in settings.items())


def titled(model):
    """By whose kernels."""
    is_eager = model.endswith(OPERATORS)
    return f"{model.removesuffix(OPERATORS)}, {'operator by operator' if is_eager else 'Inductor'}"


def figure(number, digits=2):
    return "–" if number is None else f"{number:.{digits}f}"


def gigabytes(count):
    return figure(None if count is None else count / 1e9, 3)


def row_of(pair):
    less = None if pair.ours is None else pair.theirs - pair.ours
    return [names(pair.who), gigabytes(pair.peak_bytes), figure(pair.theirs), figure(pair.ours), figure(less),
            gigabytes(pair.ours_bytes), figure(pair.gap)]


def table_of(rows):
    return markdown(HEAD, map(row_of, pairs_of(rows)))


def fits(row):
    return row[5] != "–" and float(row[5]) <= float(row[1])


def counted(row):
    """How many settings of dp and ilp below 0.9 a row stands for."""
    total = 0
    for part in row[0].split(", "):
        name, *settings = part.split(" ")
        total += sum(name in SOLVERS and float(setting) < 0.9 for setting in settings)
    return total


def summary(text):
    """One row for each model, made from the tables alone."""
    lines = []
    for table in read(text):
        if table.head[0] != HEAD[0]:
            continue
        compared = [row for row in table.rows if row[3] != "–"]
        less = [float(row[4]) if fits(row) else float("-inf") for row in compared]
        solvers = sum(map(counted, compared))
        faster = sum(counted(row) for row, points in zip(compared, less) if points > 0)
        finite = [points for points in less if points > float("-inf")]
        lines.append([table.title, str(len(compared)), str(sum(points < -SLOWER_POINTS for points in less)),
                      figure(min(finite, default=None)), figure(max(finite, default=None)),
                      f"{faster} of {solvers}", figure(max((float(row[6]) for row in compared), default=None))])
    return "\n\n".join([text[:text.index("\n")], markdown(
        ["model", "plans of PyTorch's", f"remat slower by more than {SLOWER_POINTS} points, or above the peak", "least",
         "most", "faster, dp and ilp below 0.9", "largest gap %"], lines)])


def command_of(model, rows):
    """What was run of partitioners.py, by its results."""
    rivals = {row["who"]: row["measured"].get("peak_bytes") for row in rows if row["who"] not in ("uncut", "remat")}
    asked = [name.split(" ") for name in rivals if " " in name]
    planned = {row["at_bytes"] for row in rows if row["who"] == "remat"}
    beside = [name for name, peak in rivals.items() if peak in planned]
    given = {"--settings": sorted({setting for _, setting in asked}),
             "--solvers": list(dict.fromkeys(name for name, _ in asked)),
             "--beside": beside if len(beside) < len(rivals) else ALL["--beside"]}
    words = ["partitioners.py FOLDER", model.removesuffix(OPERATORS)] + ["--operators"] * model.endswith(OPERATORS)
    for option, values in given.items():
        text = ",".join(values)
        words += [] if values == ALL[option] else [option, f'"{text}"' if " " in text else text]
    return " ".join(words)


def text_of(results):
    commands = "; ".join(command_of(model, rows) for model, rows in results.items())
    parts = [f"Commit {commit()}: `{commands}`, PyTorch 2.15, for an H100 that is not there."]
    for model, rows in results.items():
        parts += [f"## {titled(model)}", table_of(rows)]
    return "\n\n".join(parts)


# --- the picture ---

WIDTH, PANEL, HEIGHT, LEFT, TOP, COLUMNS = 800, 380, 240, 52, 92, 2
STYLE = """<style>
text{font:11px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#57606a}
.ground{fill:#fff}.title{font-size:17px;font-weight:600;fill:#1f2328}.name{font-weight:600}
.grid{stroke:#d0d7de;stroke-width:.7}.curve{stroke:#0969da;stroke-width:2;fill:none;stroke-linejoin:round}
.point{fill:#0969da}.m0{fill:#57606a}.m1{fill:#1a7f37}.m2{fill:#bc4c00}.m3{fill:#8250df}.m4{fill:#bf3989}
@media (prefers-color-scheme:dark){
text{fill:#9198a1}.ground{fill:#0d1117}.title{fill:#f0f6fc}.grid{stroke:#262c36}.curve{stroke:#58a6ff}
.point{fill:#58a6ff}.m0{fill:#9198a1}.m1{fill:#3fb950}.m2{fill:#f0883e}.m3{fill:#a371f7}.m4{fill:#f778ba}}
</style>"""
MARKS = {"default": "m0", "full": "m1", "selective": "m2", "dp": "m3", "ilp": "m3", "greedy": "m3"}
KEY = [("m0", "PyTorch's default"), ("m3", "its solvers dp, ilp, greedy"), ("m1", "full checkpointing"),
       ("m2", "selective checkpointing")]


def steps(largest, count):
    """Round values from 0 to the largest."""
    step = next(base * 10**power for power in range(-3, 6) for base in (1, 2, 5) if base * 10**power * count >= largest)
    return [step * index for index in range(int(largest / step) + 1)]


def panel(title, pairs, left, top):
    width, height = PANEL - LEFT, HEIGHT - 50
    largest_x = max(pair.peak_bytes for pair in pairs) / 1e9 * 1.05
    shown = [time for pair in pairs for time in (pair.theirs, pair.ours) if time is not None]
    least, largest = min(0, *shown) - 1, max(shown) * 1.05 + 1

    def x(count):
        return left + LEFT + width * count / 1e9 / largest_x

    def y(percent):
        return top + 20 + height * (largest - percent) / (largest - least)

    out = [f'<text class="name" x="{left + LEFT:.1f}" y="{top + 12:.1f}">{title}</text>']
    for value in steps(largest, 4):
        out.append(f'<path class="grid" d="M{left + LEFT:.1f} {y(value):.1f}h{width:.1f}"/>'
                   f'<text x="{left + LEFT - 6:.1f}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g} %</text>')
    for value in steps(largest_x, 3):
        out.append(f'<text x="{x(value * 1e9):.1f}" y="{top + height + 36:.1f}" text-anchor="middle">{value:g}</text>')
    for pair in pairs:
        mark = MARKS[pair.who[0].split(" ")[0]]
        out.append(f'<circle class="{mark}" cx="{x(pair.peak_bytes):.1f}" cy="{y(pair.theirs):.1f}" r="3.5"/>')
    ours = sorted({(pair.ours_bytes, pair.ours) for pair in pairs if pair.ours is not None})
    if ours:
        out.append(f'<path class="curve" d="M{" ".join(f"{x(count):.1f} {y(time):.1f}" for count, time in ours)}"/>')
        out += [f'<circle class="point" cx="{x(count):.1f}" cy="{y(time):.1f}" r="2"/>' for count, time in ours]
    return out


def picture(results):
    panels = [(titled(model), pairs_of(rows)) for model, rows in results.items()]
    height = TOP + HEIGHT * -(-len(panels) // COLUMNS) + 16
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
           STYLE, f'<rect class="ground" width="{WIDTH}" height="{height}" rx="8"/>',
           f'<text class="title" x="24" y="28">{TITLE}</text>',
           '<text x="24" y="48">Time over the graph that is not cut, in %, by the peak in GB, for an H100</text>', '<path class="curve" d="M24 68h18"/>', '<text x="48" y="72">remat</text>']
    left = 104
    for mark, name in KEY:
        out += [f'<circle class="{mark}" cx="{left}" cy="68" r="3.5"/>', f'<text x="{left + 9}" y="72">{name}</text>']
        left += 34 + 6 * len(name)
    for index, (model, pairs) in enumerate(panels):
        out += panel(model, pairs, 8 + (PANEL + 8) * (index % COLUMNS), TOP + HEIGHT * (index // COLUMNS))
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--output", help="docs/benchmarks.md, which gets the summary")
    options = parser.parse_args()
    results = results_of(options.results)
    publish(__file__, NAME, TITLE, text_of(results), summary, options.output)
    if options.output:
        folder = os.path.dirname(options.output)
        merged = "{\n" + ",\n".join(f"{json.dumps(model)}: [\n" + ",\n".join(map(json.dumps, rows)) + "\n]"
                                   for model, rows in results.items()) + "\n}\n"
        replace(os.path.join(folder, "tables", NAME + ".json"), merged)
        replace(os.path.join(folder, NAME + ".svg"), picture(results))


if __name__ == "__main__":
    main()

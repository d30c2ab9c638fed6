# SPDX-License-Identifier: Apache-2.0
"""Plans under Inductor's kernels: remat's beside those of PyTorch's partitioner and of checkpointing by hand.

    partitioners.py FOLDER MODEL... [--theirs] [--operators] [--settings .1,.3,.5,.7,.9] [--solvers dp,ilp,greedy]
                    [--beside "full,dp 0.5"]

Each joint graph is cut by PyTorch's default, by its budget solvers at each setting, and with every block checkpointed in
full or selectively, and lowered by Inductor (meter.py). At each of these peaks, or only at those of the cuts that
--beside names, remat plans the same joint graph. Writes FOLDER/MODEL.json, and measures only what is not there yet;
--theirs leaves out remat. With --operators peak and time are those of operators run one by one (operators.py), planned
as for kernels="aot_eager". The solver ilp needs scipy. Nothing runs and there are no weights: a model of 8 billion
parameters takes some GB and minutes of CPU time."""
import argparse
import functools
import hashlib
import json
import os
import pathlib
import time

import torch

import cuts
import joint_graphs
import meter
import operators

SETTINGS = "0.1,0.3,0.5,0.7,0.9"
SOLVERS = "dp,ilp,greedy"
TRIES = 4
ENOUGH = 1.03  # times what was asked for: not worth another try


class Results:
    """Rows of one model, in a file that is written after each."""

    def __init__(self, path):
        self.path = path
        self.rows = json.loads(path.read_text()) if path.is_file() else []

    def find(self, **facts):
        return next((row for row in self.rows if all(row.get(key) == fact for key, fact in facts.items())), None)

    def add(self, **row):
        self.rows.append(row)
        self.path.with_suffix(".tmp").write_text("[\n" + ",\n".join(map(json.dumps, self.rows)) + "\n]\n")
        os.replace(self.path.with_suffix(".tmp"), self.path)
        print(self.path.stem, json.dumps(row), flush=True)


def code_of(forward, backward):
    return hashlib.sha256((forward.code + backward.code).encode()).hexdigest()[:16]


def by_inductor(lowered):
    return {"peak_bytes": lowered.peak_bytes, "seconds": lowered.seconds, "kernels": len(lowered.kernels),
            "moved_bytes": lowered.bytes, "flops": lowered.flops}


def rivals(name, settings, solvers):
    """(name, its joint graph, solver and setting of PyTorch's partitioner)"""
    joint = functools.cache(joint_graphs.capture)
    yield "default", lambda: joint(name), "dp", 1.0
    for how in joint_graphs.CHECKPOINTING:
        yield how, lambda how=how: joint_graphs.capture(name, how), "dp", 1.0
    for setting in settings:
        for solver in solvers:
            yield f"{solver} {setting:g}", lambda: joint(name), solver, setting


def measure_theirs(name, results, options, measure):
    for who, joint, solver, setting in rivals(name, options.settings, options.solvers):
        if results.find(who=who):
            continue
        joint = joint()
        begin = time.process_time()
        forward, backward = cuts.by_torch(joint, solver, setting)
        seconds = time.process_time() - begin
        code = code_of(forward, backward)
        known = results.find(code=code)
        measured = known["measured"] if known else measure(forward, backward)
        results.add(who=who, code=code, measured=measured, cut_cpu_s=round(seconds, 3))


def fitted(plan, proposed, peak, results, measure):
    """remat's fastest plan that fits a peak. What is measured differs from what is planned, so it is planned again for as
    much less or more; if none fits, the smallest."""
    asked, tried = peak, []

    def fitting():
        return [row for row in tried if row["measured"]["peak_bytes"] <= peak]

    def add(begin, forward, backward, facts):
        seconds = time.process_time() - begin
        code = code_of(forward, backward)
        known = results.find(code=code) or next((row for row in tried if row["code"] == code), None)
        measured = known["measured"] if known else measure(forward, backward)
        tried.append({"code": code, "measured": measured, "cut_cpu_s": round(seconds, 3), **facts})
        return facts, measured

    for _ in range(TRIES):
        begin = time.process_time()
        made = plan(asked)
        if made is None:
            break
        facts, measured = add(begin, *made)
        print(f"  asked {asked / 1e9:.3f} GB, planned {facts['planned_bytes'] / 1e9:.3f}, measured "
              f"{measured['peak_bytes'] / 1e9:.3f} of {peak / 1e9:.3f}, {1e3 * measured['seconds']:.3f} ms", flush=True)
        again = int(facts["planned_bytes"] * peak / measured["peak_bytes"])
        if again <= asked * ENOUGH and measured["peak_bytes"] <= peak or len({row["code"] for row in tried}) < len(tried):
            break
        asked = min(again, int(0.995 * asked)) if measured["peak_bytes"] > peak else again
    begin = time.process_time()
    bound_ns = tried[0]["bound_ns"] if tried else 0
    for made in proposed(peak, bound_ns, [row["time_ns"] for row in fitting()]):
        add(begin, *made)
        begin = time.process_time()
    if fitting():
        return min(fitting(), key=lambda row: row["measured"]["seconds"])
    return min(tried, key=lambda row: row["measured"]["peak_bytes"], default=None)


def measure_ours(results, beside, plan, proposed, measure):
    theirs = [row for row in results.rows if row["who"] not in ("uncut", "remat")]
    theirs = [row for row in theirs if not beside or row["who"] in beside]
    for peak in sorted({row["measured"]["peak_bytes"] for row in theirs}, reverse=True):
        if not results.find(who="remat", at_bytes=peak):
            row = fitted(plan, proposed, peak, results, measure)
            results.add(who="remat", at_bytes=peak, **(row or {"refused": True}))


def inductor(name, results, options):
    joint = functools.cache(lambda: joint_graphs.capture(name))

    def measure(forward, backward):
        return by_inductor(meter.measure(forward, backward))

    def measure_planned(forward, backward):
        return by_inductor(cuts.measure_as_planned(forward, backward))

    if not results.find(who="uncut"):
        results.add(who="uncut", measured=by_inductor(meter.lower(joint().module)))
    measure_theirs(name, results, options, measure)
    if not options.theirs:
        ours = cuts.ByInductor(joint())
        measure_ours(results, options.beside, ours.plan, ours.proposed, measure_planned)


def by_operators(name, results, options):
    ours = cuts.ByOperators(joint_graphs.capture(name))

    def measure(forward, backward):
        ran = operators.run(forward, backward, ours.costs.time_ns, cuts.ROUNDING_BYTES)
        return {"peak_bytes": ran.peak_bytes, "seconds": ran.time_ns / 1e9}

    if not results.find(who="uncut"):
        seconds = operators.graph_time(ours.joint.module, ours.costs.time_ns) / 1e9
        results.add(who="uncut", measured={"seconds": seconds})
    measure_theirs(name, results, options, measure)
    if not options.theirs:
        measure_ours(results, options.beside, ours.plan, lambda *_: (), measure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", nargs="+", choices=list(joint_graphs.MODELS))
    parser.add_argument("--theirs", action="store_true")
    parser.add_argument("--operators", action="store_true")
    parser.add_argument("--settings", default=SETTINGS, type=lambda text: list(map(float, text.split(","))))
    parser.add_argument("--solvers", default=SOLVERS, type=lambda text: text.split(","))
    parser.add_argument("--beside", default=[], type=lambda text: text.split(","))
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.models:
        suffix = ".operators.json" if options.operators else ".json"
        (by_operators if options.operators else inductor)(name, Results(options.folder / (name + suffix)), options)


if __name__ == "__main__":
    main()

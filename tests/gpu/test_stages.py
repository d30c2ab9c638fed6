"""Every stage of tools/gpu.sh on small models and doubles of NVIDIA's libraries: it runs or says what it skips,
and what is done is not done again.

    test_stages.py BUILD LIBRARIES COMPILER"""
import json
import pathlib
import subprocess
import sys
import tempfile

import stages

BUILD, LIBRARIES, COMPILER = sys.argv[1:]
SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/gpu.sh"
# stage: exit codes that it may have here; 77 where compute-sanitizer or PyTorch with a GPU is missing
STAGES = {"conformance": {0}, "kernels": {0}, "steps": {0}, "sanitizer": {0, 77}, "profile": {0}, "bench": {0, 77}}
faults = []


def run(stage, out, *options):
    done = subprocess.run([SCRIPT, stage, "--build", BUILD, "--out", out, "--small", *options], encoding="utf-8",
                          capture_output=True)
    return done.returncode, done.stdout + done.stderr


def check(condition, message):
    if not condition:
        faults.append(message)


def check_stage(stage, out, doubles):
    path = pathlib.Path(out) / f"{stage}.json"
    code, said = run(stage, out, *doubles)
    items = json.loads(path.read_text())["items"]
    check(code in STAGES[stage] and items, f"{stage}: exit code {code}: {said}")
    check(all(row.keys() >= set(stages.ABOUT) for row in items.values()), f"{stage}: of what is not said: {items}")
    check(all(row["status"] == "ok" or row["why"] for row in items.values()), f"{stage}: {items}")
    done = [name for name, row in items.items() if row["status"] == "ok"]
    again, said = run(stage, out, *doubles)
    check(again == code and f"{len(done)} of {len(items)} items were done before" in said, f"{stage} again: {said}")
    check(not any(f"{stage}: {name}: " in said for name in done), f"{stage} again: {said}")


def check_graphs(out):
    """All of the stage kernels, of which a small run has two."""
    for family, form, shape in stages.KERNELS:
        command = stages.graph_of(family, form, shape)
        done = subprocess.run([f"{BUILD}/tools/remat-graph", *command, "-o", f"{out}/model.fbs"], capture_output=True,
                              encoding="utf-8")
        check(done.returncode == 0, f"kernels: {' '.join(command)}: {done.stderr}")


def check_unforeseen():
    """An exception of an item is its result."""
    def item(machine, work):
        raise RuntimeError("planted")
    row = stages.do(None, item)
    check(row["status"] == "failed" and "planted" in row["why"], f"an unforeseen exception: {row}")


check_unforeseen()
with tempfile.TemporaryDirectory() as out:
    check_graphs(out)
    doubles = ["--libraries", LIBRARIES, "--doubles", COMPILER]
    for stage in STAGES:
        check_stage(stage, out, doubles)
    ranked = json.loads((pathlib.Path(out) / "bench.json").read_text())["items"]
    check(all(row["status"] == "ok" and row["found"]["plans"] for name, row in ranked.items() if "ranking" in name),
          f"bench: {ranked}")
    # what failed or ran out of time is done again
    path = pathlib.Path(out) / "conformance.json"
    for state in ["failed", "unfinished"]:
        path.write_text(path.read_text().replace('"status": "ok"', f'"status": "{state}"'))
        code, said = run("conformance", out, *doubles)
        check(code == 0 and "conformance: primitives: ok" in said, f"after {state}: {said}")
    path.write_text(path.read_text().replace('"commit": ', '"commit": 1, "was": '))
    code, said = run("conformance", out, *doubles)
    check(code == 0 and "conformance: primitives: ok" in said, f"of another commit: {said}")
    path.unlink()
    code, said = run("conformance", out, *doubles, "--seconds", "0")
    check(code == 75 and "time ran out" in said, f"without time: exit code {code}: {said}")
print("\n".join(faults) or "ok")
sys.exit(1 if faults else 0)

"""What the planner's Python tests share: running remat-solve, and rules of their own to judge it by."""
import json
import os
import subprocess
import tempfile


def solve(tool, path, *arguments):
    done = subprocess.run([tool, path, *arguments], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    return done.returncode, done.stdout, done.stderr


class Problem:
    """A temporary file that holds `value` as JSON (or, given a string, that text)."""

    def __init__(self, value):
        self.value = value

    def __enter__(self):
        handle, self.path = tempfile.mkstemp(suffix=".json")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(self.value if isinstance(self.value, str) else json.dumps(self.value))
        return self.path

    def __exit__(self, *_):
        os.remove(self.path)


def node(time, size, *inputs):
    return {"name": f"n{time}", "time": time, "bytes": size, "inputs": list(inputs)}


def problem(*nodes):
    return {"schema": "remat-problem/1", "nodes": list(nodes)}


def simulate(nodes, sequence):
    """(time, peak) of a sequence by the rules of remat-problem/1; raises ValueError."""
    last_read, expires = {}, [()] * len(sequence)
    for i in reversed(range(len(sequence))):
        v = sequence[i]
        expires[i] = [u for u in nodes[v]["inputs"] if u not in last_read]
        if v not in last_read:
            expires[i].append(v)
        last_read.pop(v, None)
        for u in nodes[v]["inputs"]:
            last_read.setdefault(u, i)
    time = peak = used = 0
    live, ran = set(), set()
    for i, v in enumerate(sequence):
        if v in live:
            raise ValueError(f"position {i}: node {v} is live")
        live.add(v)
        ran.add(v)
        time += nodes[v]["time"]
        used += nodes[v]["bytes"]
        missing = [u for u in nodes[v]["inputs"] if u not in live]
        if missing:
            raise ValueError(f"position {i}: node {v} lacks {missing}")
        peak = max(peak, used)
        for u in expires[i]:
            live.discard(u)
            used -= nodes[u]["bytes"]
    if len(ran) != len(nodes):
        raise ValueError("a node never runs")
    return time, peak


def check_decision(nodes, decision):
    """Faults of a feasible decision, as a list of messages."""
    faults = []
    time, peak = simulate(nodes, decision["sequence"])
    total = sum(n["time"] for n in nodes)
    expected = {"time": time, "peak": peak, "overhead": time / total - 1 if total else 0,
                "gap": time / decision["lower_bound"] - 1 if decision["lower_bound"] else 0}
    for key, value in expected.items():
        if abs(decision[key] - value) > 1e-9 * max(1, abs(value)):
            faults.append(f"{key} {decision[key]}, expected {value}")
    if peak > decision["budget"]:
        faults.append(f"peak {peak} above the budget {decision['budget']}")
    if decision["lower_bound"] > time * (1 + 1e-12):
        faults.append(f"lower bound {decision['lower_bound']} above the time {time}")
    if decision["floor"] > peak:
        faults.append(f"floor {decision['floor']} above the peak {peak}")
    return faults

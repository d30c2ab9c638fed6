# SPDX-License-Identifier: Apache-2.0
"""What the planner's Python tests share: running remat-solve, and rules of their own to judge it by."""
import json
import os
import subprocess
import tempfile


def solve(tool, path, *arguments):
    done = subprocess.run([tool, path, *arguments], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    return done.returncode, done.stdout, done.stderr


def solve_timed(tool, path, *arguments):
    """The same, and the processor seconds that it took."""
    begin = os.times()
    done = solve(tool, path, *arguments)
    end = os.times()
    took = end.children_user + end.children_system - begin.children_user - begin.children_system
    return *done, took


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


def node(time, size, *inputs, **extras):
    return {"name": f"n{time}", "time": time, "bytes": size, "inputs": list(inputs), **extras}


def problem(*nodes):
    return {"schema": "remat-problem/1", "nodes": list(nodes)}


def reads(nodes, v, fused):
    """What a run of node v reads when the nodes in `fused` are made inside; storages of views too."""
    found = set()
    for u in nodes[v]["inputs"]:
        found |= reads(nodes, u, fused) if u in fused else {u}
        while nodes[u].get("alias") is not None:
            u = nodes[u]["alias"]
        found.add(u)
    return found - set(fused)


def simulate(nodes, sequence, modes=None, static_bytes=0):
    """(time, peak) of a sequence by the rules of remat-problem/1; raises ValueError."""
    last_read, expires = {}, [()] * len(sequence)
    runs = []
    for v, mode in zip(sequence, modes or [0] * len(sequence)):
        how = nodes[v]["modes"][mode - 1] if mode else nodes[v]
        runs.append((how["time"], how.get("workspace", 0),
                     reads(nodes, v, how.get("fused", []) if mode else [])))
    for i in reversed(range(len(sequence))):
        v = sequence[i]
        expires[i] = [u for u in runs[i][2] if u not in last_read]
        if v not in last_read:
            expires[i].append(v)
        last_read.pop(v, None)
        for u in runs[i][2]:
            last_read.setdefault(u, i)
    time = peak = 0
    used = static_bytes
    live, ran = set(), set()
    for i, v in enumerate(sequence):
        if v in live:
            raise ValueError(f"position {i}: node {v} is live")
        if v in ran and nodes[v].get("once"):
            raise ValueError(f"position {i}: node {v} runs again")
        used += nodes[v]["bytes"] + (0 if v in ran else nodes[v].get("lasting", 0))
        live.add(v)
        ran.add(v)
        time += runs[i][0]
        missing = [u for u in runs[i][2] if u not in live]
        if missing:
            raise ValueError(f"position {i}: node {v} lacks {missing}")
        peak = max(peak, used + runs[i][1])
        for u in expires[i]:
            live.discard(u)
            used -= nodes[u]["bytes"]
    if len(ran) != len(nodes):
        raise ValueError("a node never runs")
    return time, peak


def check_decision(nodes, decision, static_bytes=0):
    """Faults of a feasible decision, as a list of messages."""
    faults = []
    time, peak = simulate(nodes, decision["sequence"], decision.get("modes"), static_bytes)
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

# SPDX-License-Identifier: Apache-2.0
"""remat-dump --memory --with SNAPSHOT: peak, reserved bytes and classes of snapshots that Python pickles as PyTorch does,
in every protocol, whole or cut off at their beginning, against a replay here; of remat-dump's own snapshots against the
plan. Pickles that would execute something, and those that are no snapshots, are refused with the place.

    overlay.py TOOLS"""
import os
import pathlib
import pickle
import random
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import INVALID, IO, USAGE, Tools, check, finish

tool = Tools(sys.argv[1])
os.chdir(tempfile.mkdtemp())
random.seed(1)
BASE, CLASSES = 0x7F0000000000, ("parameters", "optimizer state", "gradients", "activations kept", "recomputed", "transients",
                                 "inputs and outputs", "not recorded")


def beside(path, plan="m.plan"):
    return tool.json("dump", plan, "--memory", "--with", path, "--format", "json")


def frames(*rows):
    return [{"filename": file, "line": line, "name": name} for line, (file, name) in enumerate(rows)]


SITE = "/usr/lib/python3/site-packages/"
MODULE = (SITE + "torch/nn/modules/linear.py", "forward")
STACKS = {  # as Python's frames are, the innermost first, and what they say while nothing is known of the life
    "forward": frames(MODULE, ("train.py", "step")),
    "backward": frames((SITE + "torch/autograd/graph.py", "_engine_run_backward"), (SITE + "torch/_tensor.py", "backward")),
    "recomputed": frames(MODULE, (SITE + "torch/utils/checkpoint.py", "recompute_fn"),
                         (SITE + "torch/_tensor.py", "backward")),
    "optimizer state": frames((SITE + "torch/optim/adamw.py", "_init_group"), ("train.py", "step")),
    "update": frames((SITE + "torch/optim/adamw.py", "_multi_tensor_adamw"), ("train.py", "step")),
    "parameters": frames((SITE + "torch/nn/modules/linear.py", "__init__"), ("train.py", "main")),
    "inputs and outputs": frames((SITE + "torch/utils/data/dataloader.py", "__next__"), ("train.py", "main")),
    "not recorded": [],
}
BACKWARD = ("backward", "recomputed")


def step(device):
    """A made-up step: [action, origin, size] with lives; addresses are taken from a free list, so they come again."""
    spike = random.choice(("backward", "forward"))
    events, live, free, top = [], [], [], BASE + device * (1 << 40)
    for part in [("parameters", 4), ("inputs and outputs", 2), ("forward", 40), ("mixed", 80), ("spike", 3), ("optimizer state", 8),
                 ("update", 6), ("forward", 10)]:
        for _ in range(part[1]):
            kind = {"mixed": random.choice(BACKWARD + ("forward",)), "spike": spike}.get(part[0], part[0])
            size = random.choice((512, 1024, 3000, 70000))
            address = free.pop(random.randrange(len(free))) if free and random.random() < 0.5 else top
            top = max(top, address + (1 << 20))
            events.append({"action": "alloc", "addr": address, "size": size, "stream": 0, "frames": STACKS[kind], "kind": kind,
                           "time_us": 1764432000000000 + len(events)})
            live.append(events[-1])
            if part[0] == "spike":  # the peak, of what dies at once
                events[-1]["size"] = 1 << 19
            if part[0] == "spike" or (len(live) > 6 and random.random() < 0.45):
                gone = live.pop(-1 if part[0] == "spike" else random.randrange(len(live)))
                for action in ("free_requested", "free_completed"):
                    events.append({"action": action, "addr": gone["addr"], "size": gone["size"], "stream": 0,
                                   "frames": STACKS["update"], "time_us": 0})
                free.append(gone["addr"])
    return events, live, top


def replay(events, skipped):
    """Bytes by class at the peak of the events after the first `skipped`; the rest was there before."""
    ends, at = {}, {}
    for i, event in enumerate(events):
        if event["action"] == "alloc":
            at[event["addr"]] = i
        elif event["action"] == "free_completed":
            ends[at[event["addr"]]] = i

    def class_of(i):
        kind, end = events[i]["kind"], ends.get(i)
        others = [e["kind"] for e in events[i + 1:end] if e["action"] == "alloc"]
        if i < skipped:
            return "not recorded"
        if kind == "forward":
            return "activations kept" if any(k in BACKWARD for k in others) else "transients"
        if kind == "backward":
            return "gradients" if end is None or any(k not in BACKWARD for k in others) else "transients"
        return "transients" if kind == "update" else kind

    lives = {i: (i, ends.get(i, len(events)), class_of(i)) for i, e in enumerate(events) if e["action"] == "alloc"}
    best, best_sum = None, -1
    for now in range(max(skipped - 1, 0), len(events)):
        bytes_of = dict.fromkeys(CLASSES, 0)
        for i, (begin, end, kind) in lives.items():
            if begin <= now < end:
                bytes_of[kind] += events[i]["size"]
        if sum(bytes_of.values()) > best_sum:
            best, best_sum = bytes_of, sum(bytes_of.values())
    return best, best_sum


def segment_of(device, live, top):
    blocks, address = [], BASE + device * (1 << 40)
    for event in sorted(live, key=lambda e: e["addr"]):
        if event["addr"] > address:
            blocks.append({"size": event["addr"] - address, "requested_size": 0, "state": "inactive", "frames": []})
        size = event["size"] + (-event["size"]) % 512
        blocks.append({"size": size, "requested_size": event["size"], "state": "active_allocated", "frames": event["frames"]})
        address = event["addr"] + size
    blocks.append({"size": top - address, "requested_size": 0, "state": "inactive", "frames": []})
    begin = BASE + device * (1 << 40)
    return {"device": device, "address": begin, "total_size": top - begin, "allocated_size": 0, "active_size": 0, "stream": 0,
            "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks}


def snapshot_of(*steps):
    segments, traces = [], []
    for device, (events, live, top, skipped) in enumerate(steps):
        segments.append(segment_of(device, live, top))
        traces.append([{k: v for k, v in e.items() if k != "kind"} for e in events[skipped:]])
    return {"segments": segments, "device_traces": traces, "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "roundup": 1.5},
            "external_annotations": [], "none": None, "big": -(1 << 40)}


def check_random(number):
    steps = []
    for device in range(2):
        events, live, top = step(device)
        steps.append((events, live, top, random.choice((0, 0, 30, 120))))
    peaks = [replay(events, skipped) for events, _, _, skipped in steps]
    device = max((0, 1), key=lambda d: (peaks[d][1], -d))
    whole = snapshot_of(*steps)
    for protocol in (2, 3, 4, 5):
        dump = pickle.dumps if number % 2 else pickle._dumps  # in C and in Python
        pathlib.Path("s.pickle").write_bytes(dump(whole, protocol))
        found = beside("s.pickle")["snapshot"]
        expected = {"device": device, "events": len(whole["device_traces"][device]), "peak_bytes": peaks[device][1],
                    "reserved_bytes": whole["segments"][device]["total_size"], "classes_at_peak": peaks[device][0]}
        check(found == expected, f"{number}, protocol {protocol}: {found}, not {expected}")


def check_own():
    for options in ([], ["--ac-mode", "full"], ["--microbatches", 2]):
        tool.must("compile", "m.fbs", *options, "-o", "o.plan")
        tool.must("dump", "o.plan", "--format", "snapshot", "-o", "o.pickle")
        plan = beside("o.pickle", "o.plan")
        found = plan["snapshot"]
        check((found["peak_bytes"], found["reserved_bytes"]) == (plan["peak_bytes"], plan["arena_bytes"]), found)
        check(found["classes_at_peak"] == {**plan["classes_at_peak"], "not recorded": plan["workspace_bytes"]}, found)
        text = tool.text("dump", "o.plan", "--memory", "--with", "o.pickle").partition("beside")[2]
        rows = [re.split(" {2,}", line.strip()) for line in text.splitlines()[2:]]
        check(len(rows) > 5 and all(a == b for _, a, b in rows), f"a plan and its own snapshot: {rows}")


class Payload:
    def __reduce__(self):
        return os.system, ("touch executed",)


def check_refusals():
    good = pickle.dumps(snapshot_of((*step(0), 0)))
    event = {"action": "alloc", "addr": 1, "size": 5, "frames": []}
    trace = lambda **what: pickle.dumps({"segments": [], "device_traces": [[event, {**event, **what}]]})
    cases = {
        b"": "byte 0: the file ends", b"{}": "byte 0: no pickle", good[:-1]: f"byte {len(good) - 1}: the file ends",
        good[:200]: "the file ends|longer than the file", b"\x80\x04": "byte 2: the file ends", b"\x80\x07N.": "byte 0: a pickle's protocol",
        pickle.dumps(Payload()): "nothing of a pickle is executed", pickle.dumps(Payload(), 2): "nothing of a pickle is executed",
        pickle.dumps({"segments": [Payload()]}, 2): r"byte \d+: opcode 0x63", pickle.dumps(b"x"): r"byte \d+: opcode 0x43",
        pickle.dumps([1]): "no snapshot", pickle.dumps({"segments": [], "device_traces": 3}): "no snapshot",
        trace(size=-1): 'device 0, event 1: "size"', trace(addr=None): 'device 0, event 1: "addr"',
        trace(action=5): 'device 0, event 1: "action"', trace(action=None): 'device 0, event 1: "action"',
        trace(size=1 << 60): 'device 0, event 1: "size"', trace(size=1 << 80): r"byte \d+: an integer of more than 64 bits",
        pickle.dumps({"segments": [{"device": 0}], "device_traces": [[]]}): 'device 0, segment 0: "address"',
        pickle.dumps({"segments": [3], "device_traces": [[]]}): 'device 0, segment 0: "device"',
        b"\x80\x02]r\xff\xff\xff\x7f.": "byte 3: a memo's number", b"\x80\x02h\x05.": "byte 2: the memo has nothing",
        b"\x80\x02e.": "byte 2: a mark is missing", b"\x80\x02}(K\x01u.": "byte 6: there is no dict",
        b"\x80\x02NN.": "byte 4: the pickle ends with another number", b"\x80\x02a.": "byte 2: a value is missing",
        b"\x80\x02]q\x00h\x00ah\x00a.": "no snapshot",
    }
    stack = [event["frames"]] * 2000
    shared = {"action": "x", **{str(i): 0 for i in range(3000)}}
    cases[pickle.dumps({"segments": [], "device_traces": [[shared] * 20000, stack]})] = "in more places"
    for data, said in cases.items():
        pathlib.Path("bad.pickle").write_bytes(data)
        done = tool("dump", "m.plan", "--memory", "--with", "bad.pickle")
        check(done.returncode == INVALID and re.match("remat-dump: error: bad.pickle: .*(" + said + ")", done.stderr) and
              not done.stdout, f"{data[:60]}: {done.returncode}, {done.stderr}, not {said}")
    check(not os.path.exists("executed"), "a payload is executed")
    check(tool("dump", "m.plan", "--memory", "--with", "none.pickle").returncode == IO, "a missing file")
    check(tool("dump", "m.plan", "--with", "s.pickle").returncode == USAGE, "--with without a view")


tool.must("graph", "gpt2-tiny", "--layers", 2, "--seq", 64, "--batch", 2, "-o", "m.fbs")
tool.must("compile", "m.fbs", "-o", "m.plan")
for number in range(12):
    check_random(number)
check_own()
check_refusals()
finish()

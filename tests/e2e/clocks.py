# SPDX-License-Identifier: Apache-2.0
"""The predicted time of a plan, added up naively from what remat-dump --schedule says of its commands; and of each
transfer how long computation waits for it."""
import json


def exposed_ns(commands):
    """By index of the transfer: how much of what is left of it computation waits for, to the nanosecond. Until a command
    may begin, or the segment ends, the stream does one transfer after the other."""
    computation = lane = 0
    queue = []  # [index, nanoseconds left, complete before]
    exposed = {command["index"]: 0 for command in commands if "transfer" in command}

    def pass_time(ns, waits):
        nonlocal computation
        computation += ns
        while queue and ns:
            done = min(ns, queue[0][1])
            queue[0][1] -= done
            ns -= done
            if waits:
                exposed[queue[0][0]] += done
            if queue[0][1] == 0:
                queue.pop(0)

    def wait_until(index):
        while any(before <= index for _, _, before in queue):
            pass_time(queue[0][1] or queue.pop(0)[1], True)

    for position, command in enumerate(commands):
        wait_until(command["index"])
        if "transfer" in command:
            ends = [c["index"] for c in commands[position:] if c.get("transfer", {}).get("group") == command["transfer"]["group"]]
            queue.append([command["index"], command["estimated_ns"], command["transfer"].get("complete_before", ends[-1] + 1)])
        else:
            pass_time(command["estimated_ns"], False)
    wait_until(float("inf"))
    return exposed


def segment_ns(commands):
    """Commands one after the other; a transfer goes on beside them until the command that it has to be complete before."""
    computation = lane = 0
    under_way = []  # (complete before, end)
    for command in commands:
        index, ns, transfer = command["index"], command["estimated_ns"], command.get("transfer")
        computation = max([computation] + [end for before, end in under_way if before <= index])
        if not transfer:
            computation += ns
            continue
        lane = max(computation, lane) + ns
        if "complete_before" in transfer:
            under_way.append((transfer["complete_before"], lane))
        else:
            computation = lane
    return max(computation, lane)


def step_ns(schedule, microbatches):
    """Of entry point "train": "step", or "microbatch" as often as there are microbatches, and "update"."""
    segments = {}
    for command in schedule:
        segments.setdefault(command["segment"], []).append(command)
    return sum(times * segment_ns(segments[name])
               for name, times in (("step", 1), ("microbatch", microbatches), ("update", 1)) if name in segments)


def schedule_of(text):
    return json.loads(text)["schedule"]

# SPDX-License-Identifier: Apache-2.0
"""The predicted time of a plan, added up naively from what remat-dump --schedule says of its commands."""
import json


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

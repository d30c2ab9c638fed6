# SPDX-License-Identifier: Apache-2.0
"""The predicted time of a plan, added up naively from what remat-dump --schedule says of its commands; and of each
transfer how long computation waits for it."""
import json


def done_ns(ns, slowdown):
    """Of computation, in so long beside a transfer that slows it."""
    return ns * 1000 // (1000 + slowdown)


def exposed_ns(commands):
    """By index of the transfer: how much of what is left of it computation waits for, or loses to it, to the nanosecond.
    Until a command may begin, or the segment ends, the link of each axis does one transfer after the other; it stands still
    while the next one waits for a transfer along another axis."""
    queues = {}  # by axis: [index, nanoseconds left, complete before, slowdown, waits for]
    exposed = {command["index"]: 0 for command in commands if "transfer" in command}

    def begun():
        """The transfers that links are at."""
        left = {transfer[0] for queue in queues.values() for transfer in queue}
        return [queue[0] for queue in queues.values() if queue and queue[0][4] not in left]

    def pass_time(ns):
        """At most until a transfer is complete."""
        for transfer in begun():
            transfer[1] -= ns
            assert transfer[1] >= 0
        drop()

    def drop():
        while done := [queue for queue in queues.values() if queue and queue[0] in begun() and queue[0][1] == 0]:
            done[0].pop(0)

    def compute(work):
        while work and any(queues.values()):
            first = begun()
            index, _, _, slowdown, _ = max(first, key=lambda transfer: transfer[3])
            left = min(transfer[1] for transfer in first)
            done = min(work, done_ns(left, slowdown))
            taken = left if done < work else -(-work * (1000 + slowdown) // 1000)
            exposed[index] += taken - done
            work -= done
            pass_time(taken)

    def wait_until(index):
        for queue in queues.values():
            while any(before <= index for _, _, before, _, _ in queue):
                at = begun()
                left = min(transfer[1] for transfer in at)
                exposed[(queue[0] if queue[0] in at else at[0])[0]] += left
                pass_time(left)

    for position, command in enumerate(commands):
        wait_until(command["index"])
        if "transfer" in command:
            transfer = command["transfer"]
            ends = [c["index"] for c in commands[position:] if c.get("transfer", {}).get("group") == transfer["group"]]
            before = transfer.get("complete_before", ends[-1] + 1)
            queues.setdefault(transfer["axis"], []).append(
                [command["index"], command["estimated_ns"], before, transfer.get("slowdown_permille", 0), transfer.get("waits_for")])
            drop()
        else:
            compute(command["estimated_ns"])
    wait_until(float("inf"))
    return exposed


def segment_ns(commands):
    """Commands one after the other; a transfer goes on beside them until the command that it has to be complete before."""
    computation, lanes, ends = 0, {}, {}  # of each axis; of each transfer
    under_way = []  # (complete before, end, slowdown)
    for command in commands:
        index, ns, transfer = command["index"], command["estimated_ns"], command.get("transfer")
        computation = max([computation] + [end for before, end, _ in under_way if before <= index])
        if not transfer:
            for _, end, slowdown in under_way:
                done = done_ns(max(end - computation, 0), slowdown)
                if done >= ns:
                    computation += -(-ns * (1000 + slowdown) // 1000)
                    ns = 0
                    break
                computation, ns = max(computation, end), ns - done
            computation += ns
            continue
        begin = max(computation, lanes.get(transfer["axis"], 0), ends.get(transfer.get("waits_for"), 0))
        lane = lanes[transfer["axis"]] = ends[index] = begin + ns
        if "complete_before" in transfer:
            under_way.append((transfer["complete_before"], lane, transfer.get("slowdown_permille", 0)))
        else:
            computation = lane
    return max([computation, *lanes.values()])


def step_ns(schedule, microbatches):
    """Of entry point "train": "step", or "count", if there is one, "microbatch" as often as there are microbatches, and
    "update"."""
    segments = {}
    for command in schedule:
        segments.setdefault(command["segment"], []).append(command)
    return sum(times * segment_ns(segments[name])
               for name, times in (("step", 1), ("count", 1), ("microbatch", microbatches), ("update", 1)) if name in segments)


def schedule_of(text):
    return json.loads(text)["schedule"]

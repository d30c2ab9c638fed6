# SPDX-License-Identifier: Apache-2.0
"""The n-th write (also fsync, close) of every command line fails, by itself or with all that follow, and the n-th
name (open, link, rename, mkdir) by itself: a message, a documented code, all old files whole, no new ones.
allocations.py does the same with memory, of a sample; here each allocation of a command whose file has a header
in JSON fails, and no other file comes of it.

    failures.py BUILD_DIRECTORY"""
import sys

import faults

POINTS = 14  # of each command, at most
IO = (5,)


def fail(place, command, family, count, most, mode, error, codes):
    tried = faults.points(count, most)
    for n in tried:
        faults.check(command, place.run(command, family, n, mode, error), codes)
    return len(tried)


def fail_allocations(place):
    command = faults.run("gradients", "--steps", "1", "--save-gradients", "g.safetensors",
                         outputs={"g.safetensors": "same"})
    count = place.run(command, old=False).counts["memory"]
    for n in range(1, count + 1):
        faults.check(command, place.run(command, "memory", n, old=False), (0, 6))
    return count


def main():
    with faults.Workplace(sys.argv[1]) as place:
        total = fail_allocations(place)
        for command in faults.COMMANDS:
            counts = place.run(command).counts
            total += fail(place, command, "write", counts["write"], POINTS, "once", "EIO", IO)
            total += fail(place, command, "write", counts["write"], POINTS // 4, "on", "ENOSPC", IO)
            total += fail(place, command, "name", counts["name"], POINTS, "once", "EIO", IO)
            if len(command.outputs) > 1:  # none of them is there before: the last rename fails
                new = place.run(command, old=False)
                for n in range(1, len(command.outputs)):
                    result = place.run(command, "name", new.counts["name"] + 1 - n, "once", "EIO", old=False)
                    faults.check(command, result, IO)
                    total += 1
    print(f"{total} failures")


main()

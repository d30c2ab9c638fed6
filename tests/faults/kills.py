# SPDX-License-Identifier: Apache-2.0
"""kill -9: of every command line at its n-th write, name or removal of a name, half of a write being done; of a
compilation and of a run that saves weights at random moments. Each output is the old file or the new one.

    kills.py BUILD_DIRECTORY [MOMENTS [SEED]]      of each of the two commands; 100 in the suite"""
import random
import subprocess
import sys
import time

import faults

POINTS = 10  # of a command and family, at most
RANDOM = {"compile curve", "run weights"}


def kill_at_calls(place):
    total = 0
    for command in faults.COMMANDS:
        counts = place.run(command).counts
        for family in ("write", "name", "remove"):
            for n in faults.points(counts[family], POINTS):
                faults.check_killed(command, place.run(command, family, n, "kill"))
                total += 1
    return total


def kill_at_random(place, command, moments, generator):
    """Kills it at so many moments of its life; how often it left new files."""
    place.run(command)
    longest = 0.01  # follows what the command takes on this machine at this time: most moments are within
    killed = new = 0
    while killed < moments:
        place.lay_out(command)
        before = faults.snapshot(place.folder)
        process = place.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(generator.random() * longest)
        process.kill()
        code = process.wait()
        files = faults.snapshot(place.folder)
        result = faults.Result(code, b"", "", {}, before, files, place.whole[command.name])
        longest *= 0.8 if code == 0 else 1.05
        if code == 0:
            faults.check_new(command, result)
        else:
            faults.check_killed(command, result)
            killed += 1
            new += any(files[name] != before[name] for name in command.outputs)
    return new


def main():
    moments = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    generator = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    with faults.Workplace(sys.argv[1]) as place:
        print(f"killed at {kill_at_calls(place)} calls")
    with faults.Workplace(sys.argv[1], in_memory=False) as place:
        for command in faults.COMMANDS:
            if command.name in RANDOM:
                new = kill_at_random(place, command, moments, generator)
                print(f"{command}: killed at {moments} moments, {new} of them after a file was moved")


main()

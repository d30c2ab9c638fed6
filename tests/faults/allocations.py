# SPDX-License-Identifier: Apache-2.0
"""The n-th allocation of every command line fails, alone or with all that follow: exit code 6 and "out of memory",
the old files whole and no new ones, or, where a library does without, exit code 0 and the same output.

    allocations.py BUILD_DIRECTORY [MOST [COMMAND...]]     # MOST: of each command line; default 48"""
import re
import sys

import faults

LIMIT = 48


def settled(command, stdout):
    """Standard output without what varies from run to run: times, and memory of the process."""
    return re.sub(rb" *[0-9][0-9.,]* *(ns|us|ms|s|kB|MB|GB)?\b", b" N", stdout) if command.tool == "run" else stdout


def check(command, result, whole):
    faults.check(command, result, codes=(0, 6))
    if result.code == 0:
        assert settled(command, result.stdout) == settled(command, whole.stdout), (command, "another output")
    else:
        assert f"remat-{command.tool}: error: " in result.stderr and "out of memory" in result.stderr, result.stderr


def main():
    build, most, names = sys.argv[1], int((sys.argv[2:] or [LIMIT])[0]), sys.argv[3:]
    runs, spared, faulty = 0, 0, 0
    with faults.Workplace(build) as place:
        for command in faults.COMMANDS:
            if names and command.name not in names:
                continue
            whole = place.run(command)
            tried = [(n, "once") for n in faults.points(whole.counts["memory"], most)]
            tried += [(n, "on") for n in faults.points(whole.counts["memory"], most // 4)]
            for n, mode in tried:
                result = place.run(command, "memory", n, mode)
                runs += 1
                spared += result.code == 0
                try:
                    check(command, result, whole)
                except AssertionError as fault:
                    faulty += 1
                    print(f"{command}: allocation {n}, {mode}: {fault}"[:600])
    print(f"{runs} allocations failed, {spared} were done without, {faulty} faults")
    return 1 if faulty or not spared or spared > runs / 2 else 0


sys.exit(main())

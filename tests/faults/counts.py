# SPDX-License-Identifier: Apache-2.0
"""Every command line of faults.py works, and its calls are counted.

    counts.py BUILD_DIRECTORY"""
import os
import sys

import faults

with faults.Workplace(sys.argv[1]) as place:
    for command in faults.COMMANDS:
        result = place.run(command)
        assert result.code == 0, (command, result.code, result.stderr)
        faults.check_new(command, result)
        counts = result.counts
        assert set(counts) == set(faults.FAMILIES), (command, counts)
        outputs = [name for name in command.outputs if command.outputs[name] != "folder"]
        assert counts["write"] > len(outputs), (command, counts)
        assert counts["name"] >= len(outputs), (command, counts)
        # Flushed are each output and the folder it lies in, and each file of a folder that is an output.
        inside = [name for name in result.files if os.path.dirname(name) in command.outputs]
        assert counts["sync"] >= 2 * len(command.outputs) + len(inside), (command, counts)
        again = place.run(command)
        for name in outputs:
            if command.outputs[name] == "same":
                assert again.files[name] == result.files[name], (command, name, "differs from run to run")
        print(command, counts)

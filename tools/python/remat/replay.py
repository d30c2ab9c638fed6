# SPDX-License-Identifier: Apache-2.0
"""What a sequence of rows keeps in memory, by the rules of docs/problems.md; shares no code with the planner."""
import dataclasses

from .bare_problem import BORDER


@dataclasses.dataclass
class Memory:
    """Bytes: at the peak, of each pass too, and after the border. Rows: where the peak is, and whose values are live
    across the border."""
    peak_bytes: int
    peak_row: int
    forward_peak_bytes: int
    backward_peak_bytes: int
    border_bytes: int
    saved: list


def replay(rows, sequence, sizes=None):
    """`sizes`: bytes at each place of the sequence, where they are not those of its rows."""
    sizes = [rows[row].bytes for row in sequence] if sizes is None else sizes
    last_read, newest = {}, {}
    for time, row in enumerate(sequence):
        for source in rows[row].inputs:
            if source not in newest:
                raise AssertionError(f"{rows[row].name} reads {rows[source].name} before it is made")
            last_read[newest[source]] = time
        newest[row] = time
        last_read[time] = time
    freed = {}
    for made, read in last_read.items():
        freed.setdefault(read, []).append(made)
    live = border_bytes = 0
    peak = forward = (0, 0)  # of a pass: bytes, row
    begun, alive, saved = set(), set(), []
    for time, row in enumerate(sequence):
        if row not in begun:
            live += rows[row].lasting
            begun.add(row)
        live += sizes[time]
        alive.add(time)
        peak = max(peak, (live + rows[row].workspace, row), key=lambda one: one[0])
        for made in freed.get(time, ()):
            live -= sizes[made]
            alive.discard(made)
        if rows[row].run is BORDER:
            border_bytes = live
            saved = [sequence[made] for made in sorted(alive) if sizes[made]]
            forward, peak = peak, (live, row)
    return Memory(*max(forward, peak, key=lambda one: one[0]), forward[0], peak[0], border_bytes, saved)

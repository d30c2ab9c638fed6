# SPDX-License-Identifier: Apache-2.0
"""The planner of bare problems (docs/problems.md), in libremat-compiler."""
import ctypes as c
import dataclasses

from ._library import VERSION, Handle, Problem, Session, SolvedInfo, SolveSettings, array, sized

__all__ = ["VERSION", "Decision", "smallest", "solve"]
EFFORT = 1.0
LITTLE_EFFORT = 0.05
NEAR = 1.001  # times of the bound: a longer search could win no more than that


@dataclasses.dataclass(frozen=True)
class Decision:
    """`sequence` are indices of rows in the order of their runs; without a plan it is empty, and `smallest_bytes` is
    the smallest peak found. Below `floor_bytes` there is no plan; `floor_row` needs so much. Times in ns."""
    sequence: tuple
    peak_bytes: int
    time_ns: float
    lower_bound_ns: float
    total_ns: float
    given_peak_bytes: int
    floor_bytes: int
    floor_row: int
    smallest_bytes: int
    found_by: str = "the search"


def solve(rows, budget_bytes, effort=None):
    """Plans rows of remat-problem/1. The same rows and budget give the same decision. Unless stated the effort is as
    much as brings it near the bound, or EFFORT."""
    found = _within(rows, budget_bytes, effort or LITTLE_EFFORT)
    if effort or found.sequence and found.time_ns <= found.lower_bound_ns * NEAR:
        return found
    thorough = _within(rows, budget_bytes, EFFORT)
    if found.sequence and (not thorough.sequence or found.time_ns < thorough.time_ns):
        return dataclasses.replace(found, lower_bound_ns=max(found.lower_bound_ns, thorough.lower_bound_ns))
    return thorough


def _within(rows, budget_bytes, effort):
    info, sequence = _solved(rows, budget_bytes, effort)
    return _decision(info, sequence if info.fits else ())


def smallest(rows, effort=EFFORT):
    """As solve() for a budget that nothing fits, with the sequence of the smallest peak found."""
    return _decision(*_solved(rows, 1, effort))


def _decision(info, sequence):
    return Decision(sequence, info.peak_bytes if info.fits else 0, info.time if info.fits else 0, info.lower_bound,
                    info.given_time, info.given_peak_bytes, info.floor_bytes, info.floor_node,
                    0 if info.fits else info.peak_bytes)


def _solved(rows, budget_bytes, effort):
    session = Session()
    settings = sized(SolveSettings, budget_bytes=budget_bytes, effort=effort)
    solved = Handle(session, "remat_solved", session.context, c.byref(_problem(rows)), c.byref(settings))
    return solved.info(SolvedInfo), tuple(solved.list("runs", c.c_uint32))


def _problem(rows):
    inputs = [source for row in rows for source in row["inputs"]]
    begin = [0]
    for row in rows:
        begin.append(begin[-1] + len(row["inputs"]))
    return sized(Problem, node_count=len(rows), names=array(c.c_char_p, (row["name"].encode() for row in rows)),
                 time=array(c.c_double, (row["time"] for row in rows)),
                 bytes=array(c.c_uint64, (row["bytes"] for row in rows)), input_begin=array(c.c_uint32, begin),
                 inputs=array(c.c_uint32, inputs),
                 workspace_bytes=array(c.c_uint64, (row.get("workspace", 0) for row in rows)),
                 lasting_bytes=array(c.c_uint64, (row.get("lasting", 0) for row in rows)),
                 once=array(c.c_bool, (row.get("once", False) for row in rows)))

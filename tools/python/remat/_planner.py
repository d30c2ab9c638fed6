# SPDX-License-Identifier: Apache-2.0
"""The planner, reached through its tool remat-solve."""
import dataclasses
import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from .errors import Error

VERSION = "0.1.0"  # of the planner that this package belongs to


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


def solve(rows, budget_bytes):
    """Plans rows of remat-problem/1. The same rows and budget give the same decision."""
    problem = {"schema": "remat-problem/1", "nodes": rows}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "problem.json"
        path.write_text(json.dumps(problem))
        done = subprocess.run([tool(), str(path), "--budget", str(budget_bytes)], capture_output=True, text=True,
                              check=False)
    if done.returncode not in (0, 3, 7):
        raise Error(f"remat-solve failed with exit code {done.returncode}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    return Decision(tuple(found.get("sequence", ())), found.get("peak", 0), found.get("time", 0),
                    found.get("lower_bound", 0), found["total_time"], found["given_peak"], found["floor"],
                    found["floor_node"], found.get("smallest_peak_found", 0))


@functools.lru_cache(maxsize=None)
def tool():
    """The path of remat-solve: in REMAT_PREFIX, else on PATH; of the version that this package belongs to."""
    prefix = os.environ.get("REMAT_PREFIX")
    found = os.path.join(prefix, "bin", "remat-solve") if prefix else shutil.which("remat-solve")
    if not found or not os.path.exists(found):
        raise Error(f"remat-solve is not {f'in {prefix}/bin' if prefix else 'on PATH'}: install remat {VERSION} "
                    "(docs/install.md), or set REMAT_PREFIX to where it is")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout.split()[-1:]
    if version != [VERSION]:
        raise Error(f"{found} is of version {' '.join(version) or 'unknown'}, this package needs {VERSION}: "
                    f"install remat {VERSION}")
    return found

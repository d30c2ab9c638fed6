# SPDX-License-Identifier: Apache-2.0
"""What a plan is a function of, beside its graph: the key of caches that outlive the process."""
import functools
import hashlib
import json
import pathlib

import torch

from . import _library, costs as costs_of
from .nodes import hint


def key(*arguments):
    return hashlib.sha256(json.dumps(facts(*arguments)).encode()).hexdigest()


def facts(kernels, left_bytes, inputs_counted, inputs, costs, recomputable, replay_random, whole):
    """`left_bytes`: of the budget, for the graph and, if they are counted, its inputs. `whole`: it is planned alone."""
    return {"torch": torch.__version__, "planner": planner(), "kernels": kernels, "left": left_bytes,
            "counted": inputs_counted, "whole": whole, "sizes": [_sizes(one) for one in inputs],
            "costs": costs_of.facts(costs, inputs), "recomputable": sorted(recomputable), "random": replay_random}


@functools.lru_cache(maxsize=None)
def planner():
    """A hash of the library and of this package: their version stays while they change."""
    found = hashlib.sha256()
    for path in [_library.find(), *sorted(pathlib.Path(__file__).parent.glob("*.py"))]:
        found.update(path.read_bytes())
    return found.hexdigest()


def _sizes(given):
    """A graph of symbolic sizes is planned for those that it was traced with."""
    if isinstance(given, torch.Tensor):
        return [*map(hint, given.shape), "by", *map(hint, given.stride())]
    return hint(given) if isinstance(given, (int, torch.SymInt)) else None

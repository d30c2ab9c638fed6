# SPDX-License-Identifier: Apache-2.0
"""torch.compile under a memory budget in bytes.

    backend = remat.backend(budget="60GB", model=model, optimizer=optimizer, kernels="aot_eager")
    step = torch.compile(model, backend=backend)
    print(backend.report())"""
from . import _torch  # first: it says which versions of PyTorch work
from .costs import Costs
from .errors import Error, InfeasibleBudget, Refused
from .named import defaults
from .plans import Graph
from .shared import backend
from .traced import problem

__all__ = ["Costs", "Error", "Graph", "InfeasibleBudget", "Refused", "backend", "defaults", "problem"]
__version__ = "0.1.0"

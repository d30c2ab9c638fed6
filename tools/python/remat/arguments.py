# SPDX-License-Identifier: Apache-2.0
"""Arguments of a backend, each checked: an error names the argument and its value."""
import dataclasses
import numbers

import torch

from . import inductor
from ._torch import WORKS_WITH_INDUCTOR, is_one_of
from .costs import Costs
from .errors import Error

OPTIONS = ("recomputable", "replay_random")


@dataclasses.dataclass(frozen=True)
class Options:
    """`settings`: those of Inductor."""
    recomputable: tuple
    replay_random: bool
    settings: dict


def check(model, optimizer, kernels, kinds, margin, accumulate, costs):
    if model is not None:
        check_model(model)
    if optimizer is not None:
        check_optimizer(optimizer)
    if kernels not in kinds:
        raise Error(f"kernels {_shown(kernels)} is not one of {', '.join(kinds)}")
    if not isinstance(margin, numbers.Real) or isinstance(margin, bool) or not 0 <= margin < 1:
        raise Error(f"margin {_shown(margin)} is not a share of the budget in [0, 1)")
    if accumulate not in (None, True, False):
        raise Error(f"accumulate {_shown(accumulate)} is not True, False or None")
    if costs is not None and not isinstance(costs, (str, Costs)):
        raise Error(f"costs {_shown(costs)} is neither the name of a device, 'measured' nor remat.Costs")
    if kernels == "inductor" and not is_one_of(WORKS_WITH_INDUCTOR):
        raise Error(f'kernels="inductor" works with PyTorch {", ".join(WORKS_WITH_INDUCTOR)}; this is '
                    f'{torch.__version__}: use kernels="aot_eager"')


def check_model(model):
    if not isinstance(model, torch.nn.Module):
        raise Error(f"model {_shown(model)} is not a torch.nn.Module")


def check_optimizer(optimizer):
    if not hasattr(optimizer, "param_groups") or not hasattr(optimizer, "state"):
        raise Error(f"optimizer {_shown(optimizer)} is not a torch.optim.Optimizer")


def options_of(given, kernels):
    """Options from what the user gave for these kernels."""
    if given is not None and not isinstance(given, dict):
        raise Error(f"options {_shown(given)} is not a dict of names and values")
    given = given or {}
    settings = {name: value for name, value in given.items() if name not in OPTIONS}
    replay_random = given.get("replay_random", False)
    if not isinstance(replay_random, bool):
        raise Error(f"option 'replay_random': {_shown(replay_random)} is not True or False")
    if kernels == "inductor":
        inductor.check_settings(settings)
        if replay_random:
            raise Error("option 'replay_random' is for eager kernels: Inductor makes random numbers from seeds")
    elif settings:
        raise Error(f"unknown option {min(map(_shown, settings))} (accepted: {', '.join(OPTIONS)})")
    return Options(_recomputable(given.get("recomputable", ())), replay_random, settings)


def _recomputable(given):
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, (list, tuple, set, frozenset)):
        raise Error(f"option 'recomputable': {_shown(given)} is not a list of names of operators")
    for name in names:
        if not isinstance(name, str) or name.count("::") != 1:
            raise Error(f"option 'recomputable': {_shown(name)} is not the name of an operator, as 'mine::op'")
        library, operator = name.split("::")
        if not hasattr(getattr(torch.ops, library), operator):
            raise Error(f"option 'recomputable': there is no operator {_shown(name)}")
    return tuple(names)


def _shown(value):
    """On one line, of a length for messages."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."

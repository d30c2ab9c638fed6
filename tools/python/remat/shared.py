# SPDX-License-Identifier: Apache-2.0
"""One backend is one budget: equal settings for the same model give the same backend, as Dynamo compares backends by
identity and runs in eager mode what too many of them have compiled."""
import inspect
import weakref

from ._backend import Backend
from .sizes import parse_bytes

MADE = weakref.WeakValueDictionary()  # by their settings; a backend keeps its model, so identities stay


def backend(budget, model=None, optimizer=None, **settings):
    """A backend for torch.compile. The arguments are those of docs/pytorch.md."""
    bound = inspect.signature(Backend).bind(budget, model, optimizer, **settings)
    bound.apply_defaults()
    if model is None:
        return Backend(**bound.arguments)
    key = tuple(comparable(name, value) for name, value in bound.arguments.items())
    found = MADE.get(key)
    if found is None or found.failure is not None:
        found = MADE[key] = Backend(**bound.arguments)
    return found


def comparable(name, value):
    if name == "budget":
        return parse_bytes(value)
    return id(value) if name in ("model", "optimizer") else repr(value)

# SPDX-License-Identifier: Apache-2.0
"""The backend by its name, for trainers that take one: torch.compile(model, backend="remat").

Its settings are options={"budget": "60GB", ...}, else what remat.defaults(...) has set, else REMAT_BUDGET."""
import os

from .errors import Error
from .shared import backend as shared, comparable


class Named:
    """Backends by their settings, so that all graphs of a model are planned by one."""

    def __init__(self):
        self._set, self._by_settings = None, {}

    def set(self, backend):
        self._set = backend
        return backend

    def current(self, options):
        """The backend that a graph compiled now would be planned by."""
        if options:
            return self._made(dict(options))
        if self._set is not None:
            return self._set
        budget = os.environ.get("REMAT_BUDGET")
        if not budget:
            raise Error('backend="remat" needs a budget: options={"budget": "60GB"}, remat.defaults(budget="60GB"), '
                        "or the environment variable REMAT_BUDGET")
        return self._made({"budget": budget})

    def _made(self, settings):
        if "budget" not in settings:
            raise Error(f'options of backend="remat" are those of remat.backend(); without a budget there are '
                        f'{", ".join(map(repr, settings))}')
        key = tuple((name, comparable(name, settings[name])) for name in sorted(settings))
        if key not in self._by_settings:
            self._by_settings[key] = shared(**settings)
        return self._by_settings[key]


NAMED = Named()


def compile_named(module, example_inputs, *, options=None, **settings):
    """What the entry point `remat` of torch_dynamo_backends names. Dynamo keeps compiled code by the backend's name, so
    code of other settings than those of now says so instead of running."""
    backend = NAMED.current(options)
    run = backend(module, example_inputs, **settings)

    def checked(*arguments):
        if NAMED.current(options) is not backend:
            raise Error('the settings of backend="remat" have changed since this was compiled: call '
                        "torch.compiler.reset(), then compile again")
        return run(*arguments)
    return checked


def defaults(budget, **settings):
    """Sets what backend="remat" uses where no options are given, as remat.backend() has it, and returns that backend,
    for its report."""
    return NAMED.set(shared(budget, **settings))

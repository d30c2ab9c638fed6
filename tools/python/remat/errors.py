# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, as the user sees it."""


class Error(RuntimeError):
    """Any error of this package."""


class InfeasibleBudget(Error):
    """No plan fits the budget. `smallest_bytes` is the smallest budget for which a plan was found, or None, and
    `floor_bytes` the proven bound below which there is none; both of the whole budget, margin included."""

    def __init__(self, message, smallest_bytes=None, floor_bytes=None):
        super().__init__(message)
        self.smallest_bytes, self.floor_bytes = smallest_bytes, floor_bytes


class Refused(Error):
    """The graph holds something that cannot be planned without the risk of a wrong result."""

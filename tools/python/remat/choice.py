# SPDX-License-Identifier: Apache-2.0
"""One option for each call of a step: the least time such that every pass fits.

What a call keeps from its forward to its backward pass lies beside all that runs between them. Calls nest as passes
do, so of those chosen so far only the sum of what they keep matters, and dynamic programming over the calls in their
order holds, of all choices with one sum, the fastest. Where calls do not nest, what is not known yet is taken at its
worst; at its best for a lower bound."""
import dataclasses

LIMIT = 1024  # of sums that are told apart


@dataclasses.dataclass(frozen=True)
class Option:
    time_ns: float
    kept_bytes: int
    forward_peak_bytes: int
    backward_peak_bytes: int

    @property
    def peak_bytes(self):
        return max(self.forward_peak_bytes, self.backward_peak_bytes)


@dataclasses.dataclass(frozen=True)
class Moment:
    """A pass of a call: how many bytes its peak and what other calls keep may take together, and the numbers of the
    calls that keep something then."""
    room_bytes: int
    holders: frozenset


@dataclasses.dataclass(frozen=True)
class Call:
    options: tuple
    forward: Moment
    backward: Moment


def choose(calls, lower=False):
    """(time, index of each call's option), or None where nothing fits. With `lower` the time is a lower bound of that
    of every choice that fits."""
    points = [(0, 0.0, None)]
    for number, call in enumerate(calls):
        forward, backward = (moment.room_bytes - _correction(calls, number, moment, lower)
                             for moment in (call.forward, call.backward))
        points = _thinned(_fastest([
            (kept + option.kept_bytes, time + option.time_ns, (chosen, index))
            for kept, time, chosen in points for index, option in enumerate(call.options)
            if kept + option.forward_peak_bytes <= forward and kept + option.backward_peak_bytes <= backward]), lower)
    if not points:
        return None
    _, time, chosen = points[-1]
    picks = []
    while chosen:
        chosen, index = chosen
        picks.append(index)
    return time, picks[::-1]


def _correction(calls, number, moment, lower):
    """Bytes to add to the sum of what earlier calls keep: without those that keep nothing any more, with later ones."""
    least, most = (max, min) if lower else (min, max)
    bytes_ = 0
    for other, call in enumerate(calls):
        if other < number and other not in moment.holders:
            bytes_ -= least(option.kept_bytes for option in call.options)
        if other > number and other in moment.holders:
            bytes_ += most(option.kept_bytes for option in call.options)
    return bytes_


def _fastest(points):
    """By the bytes kept, those that are faster than all that keep less."""
    found = []
    for point in sorted(points, key=lambda one: one[:2]):
        if not found or point[1] < found[-1][1]:
            found.append(point)
    return found


def _thinned(points, lower):
    """At most LIMIT points and the first: of neighbours the fastest; for a bound, with the fewest bytes of any."""
    if len(points) <= LIMIT:
        return points
    first, cells = points[0], {}
    width = points[-1][0] - first[0] + 1
    for kept, time, chosen in points:
        cell = (kept - first[0]) * LIMIT // width
        cells[cell] = (cells[cell][0] if lower and cell in cells else kept, time, chosen)
    return [first, *cells.values()]

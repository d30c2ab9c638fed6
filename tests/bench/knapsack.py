# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's partitioner would save under `activation_memory_budget`, at the costs of a plan.

After choose_saved_values_set of torch/_functorch/partitioners.py: values that take much to compute
(matmul, attention, sums over something at least four times as large) are banned from being
recomputed, and a minimum cut saves as few bytes as it can. Where that is more than the memory
budget, a share of the bytes that the backward pass reads, a 0/1 knapsack chooses which of them stay
banned: most time in the budget, each an item by itself. Then the cut is repeated.

What differs: the nodes are the kernels of the plan that saves everything, with their times; what
lies outside of the layers is saved."""
import collections
import re

KNAPSACK_STEPS = 10000  # the budget 1, as in torch
BANNED_KINDS = ("matmul", "attention")
REDUCTION = 4  # inputs so many times as large as an output
FAR = 100


class Flow:
    """A network of nodes 0, 1, ..., where `source` and `sink` are two of them."""

    def __init__(self, nodes):
        self.arcs = [[] for _ in range(nodes)]  # of each node: indices of arcs
        self.to, self.residual = [], []

    def add(self, begin, end, capacity):
        for node, other, amount in ((begin, end, capacity), (end, begin, 0)):
            self.arcs[node].append(len(self.to))
            self.to.append(other)
            self.residual.append(amount)

    def shortest_path(self, source, sink):
        """Arcs from the source to the sink, None when there is no path."""
        reached = {source: None}
        queue = collections.deque([source])
        while queue and sink not in reached:
            node = queue.popleft()
            for arc in self.arcs[node]:
                if self.residual[arc] > 0 and self.to[arc] not in reached:
                    reached[self.to[arc]] = arc
                    queue.append(self.to[arc])
        if sink not in reached:
            return None
        path, node = [], sink
        while node != source:
            path.append(reached[node])
            node = self.to[reached[node] ^ 1]
        return path

    def saturate(self, source, sink):
        """Until no path is left; returns the nodes from which the sink can still be reached."""
        while (path := self.shortest_path(source, sink)) is not None:
            amount = min(self.residual[arc] for arc in path)
            for arc in path:
                self.residual[arc] -= amount
                self.residual[arc ^ 1] += amount
        late, queue = {sink}, [sink]
        while queue:
            for arc in self.arcs[queue.pop()]:
                if self.residual[arc ^ 1] > 0 and self.to[arc] not in late:
                    late.add(self.to[arc])
                    queue.append(self.to[arc])
        return late


def knapsack(items, budgets):
    """items: (share of the memory, time). For each budget the set of those to save."""
    weights = [round(share * KNAPSACK_STEPS) for share, _ in items]
    best, taken = [0.0] * (KNAPSACK_STEPS + 1), []
    for weight, (_, time) in zip(weights, items):
        fits = max(0, len(best) - weight)
        with_it = [value + time for value in best[:fits]]
        row = [new > old for new, old in zip(with_it, best[weight:])]
        best[weight:] = map(max, with_it, best[weight:])
        taken.append((weight, bytes(row)))
    chosen = []
    for budget in budgets:
        room, saved = round(budget * KNAPSACK_STEPS), set()
        for item in range(len(items) - 1, -1, -1):
            weight, row = taken[item]
            if room >= weight and row[room - weight]:
                saved.add(item)
                room -= weight
        chosen.append(saved)
    return chosen


class Kernel:
    def __init__(self, command, layer_of):
        self.time = command["estimated_ns"]
        self.kind = command["kind"]
        names = {access: [o["value"] for o in command["operands"] if o["access"] == access]
                 for access in ("read", "write")}
        self.reads = sorted(set(names["read"]) & layer_of)
        self.writes = [name for name in names["write"] if name in layer_of]


class Forward:
    """The forward pass of a plan that saves everything: `schedule` and `buffers` as remat-dump gives
    them as JSON."""

    def __init__(self, schedule, buffers):
        segment = next(c["segment"] for c in schedule if c["phase"] == "backward")
        commands = [c for c in schedule if c["segment"] == segment]
        early = [c for c in commands if c["phase"] == "forward"]
        self.bytes = {o["value"]: buffers[o["buffer"]]["bytes"] for c in early if c["layer"] >= 0
                      for o in c["operands"] if o["access"] == "write"}
        self.kernels = [Kernel(c, self.bytes.keys()) for c in early]
        self.wanted = {o["value"] for c in commands if c["phase"] == "backward"
                       for o in c["operands"] if o["access"] == "read"} & self.bytes.keys()
        self.find_distances()

    def find_distances(self):
        """Of each value: nodes between it and the backward pass."""
        self.distance, nearest = {}, {}
        for kernel in reversed(self.kernels):
            for name in kernel.writes:
                self.distance[name] = 1 if name in self.wanted else 1 + nearest.get(name, FAR)
            for name in kernel.reads:
                nearest[name] = min([self.distance[out] for out in kernel.writes] +
                                    [nearest.get(name, FAR)])

    def banned(self):
        """Kernel by kernel, what takes much to compute."""
        groups = []
        for kernel in self.kernels:
            read = sum(self.bytes[name] for name in kernel.reads)
            heavy = kernel.kind.startswith(BANNED_KINDS)
            names = [name for name in kernel.writes
                     if heavy or REDUCTION * self.bytes[name] < read]
            if names:
                groups.append((kernel.time, names))
        return groups

    def cut(self, banned):
        """What to save so that nothing banned is recomputed."""
        number = {name: 2 * i for i, name in enumerate(self.bytes)}
        source, sink = 2 * len(number), 2 * len(number) + 1
        flow = Flow(sink + 1)
        unbounded = 1 << 62
        for name, node in number.items():
            weight = self.bytes[name] * 1.1 ** min(FAR, self.distance[name])
            flow.add(node, node + 1, int(weight))
            if name in banned:
                flow.add(source, node, unbounded)
            if name in self.wanted:
                flow.add(node + 1, sink, unbounded)
        for kernel in self.kernels:
            for name in kernel.writes:
                for read in kernel.reads:
                    flow.add(number[read] + 1, number[name], unbounded)
        late = flow.saturate(source, sink)
        return {name for name, node in number.items() if node + 1 in late and node not in late}

    def size(self, names):
        return sum(self.bytes[name] for name in names)

    def saved(self, budgets):
        """For each memory budget from 0 to 1 the values to save."""
        groups = self.banned()
        everything = {name for _, names in groups for name in names}
        most, least = self.size(self.wanted), self.cut(everything)
        items = [(self.size(names) / most, time) for time, names in groups]
        result = []
        for budget, kept in zip(budgets, knapsack(items, budgets)):
            enough = self.size(least) <= budget * most
            banned = {name for item in kept for name in groups[item][1]}
            result.append(least if enough else self.cut(banned))
        return result


def patterns(names, everything):
    """Globs for the names; one for those that differ in the number of the layer only, where all do."""
    def shape(name):
        return re.sub(r"\.\d+\.", ".*.", name, count=1)
    whole = collections.Counter(map(shape, everything))
    part = collections.Counter(map(shape, names))
    return sorted({shape(name) if part[shape(name)] == whole[shape(name)] else name
                   for name in names})

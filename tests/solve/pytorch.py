# SPDX-License-Identifier: Apache-2.0
"""PyTorch's published expectations as problems: equal or better in every row.

    pytorch.py REMAT_SOLVE

Sources: test/functorch/test_ac.py (45918c74) and test/distributed/_tools/test_sac_ilp.py (7b88d734)
of PyTorch; the rows of an 8-layer model are plans of torch 2.14.1's partitioner, and of policies,
whose liveness was simulated. The first two bound what is saved between forward and backward pass:
here a border that takes so much workspace that it alone decides the peak.
"""
import json
import sys

from planned import Problem, check_decision, simulate, solve

WIDE = 10**9  # workspace of the border


class Graph:
    def __init__(self):
        self.nodes = []

    def add(self, time, size, inputs=(), **extras):
        index = len(self.nodes)
        self.nodes.append({"name": f"n{index}", "time": time, "bytes": size,
                           "inputs": sorted(set(inputs)), **extras})
        return index

    def problem(self):
        return {"schema": "remat-problem/1", "nodes": self.nodes}


def extra_time(tool, graph, budget):
    """(extra time of the plan, faults)"""
    with Problem(graph.problem()) as path:
        code, out, err = solve(tool, path, "--budget", str(budget))
    if code:
        return float("inf"), [f"code {code}: {err.strip()}"]
    decision = json.loads(out)
    return decision["time"] - decision["total_time"], check_decision(graph.nodes, decision)


def expect(tool, what, graph, budget, expected):
    extra, faults = extra_time(tool, graph, budget)
    print(f"{what:34s} extra {extra:g}, published {expected:g}")
    if extra > expected * (1 + 1e-9) + 1e-9:
        faults.append(f"extra {extra}, published {expected}")
    return [f"{what}: {fault}" for fault in faults]


def add_border(graph, values):
    """Runs between everything before and after it; holds on to nothing, thanks to empty values."""
    done = [graph.add(0, 0, [value], once=True) for value in values]
    return graph.add(0, 0, done, workspace=WIDE, once=True)


def parallel(items):
    """Independent operations (time, bytes, may run once only) whose results the backward pass
    reads."""
    graph = Graph()
    values = [graph.add(time, size, once=once) for time, size, once in items]
    border = add_border(graph, values)
    for value in values:
        graph.add(0, 0, [value, border])
    return graph


def chain(length):
    """length x (matrix product, cosine), 1 unit of bytes each; only products take time. The
    gradient of a cosine reads its input, that of a product its input too."""
    graph, reads, last = Graph(), [], None
    for _ in range(length):
        product = graph.add(1, 1, [last] if last is not None else [])
        reads += [[product], [last] if last is not None else []]
        last = graph.add(0, 1, [product])
    before = add_border(graph, [last])
    for inputs in reversed(reads):
        before = graph.add(2 if inputs else 0, 0, [*inputs, before])
    return graph


def check_chain(tool):
    faults = []
    for tenths, extra in [(k, 5 - k) for k in range(6)] + [(6, 0), (9, 0), (10, 0)]:
        faults += expect(tool, f"chain of 5, budget {tenths / 10}", chain(5), WIDE + tenths, extra)
    return faults


def check_sums(tool):
    faults = []
    for widths, sums in (((11, 3, 4, 2), (18, 17, 16, 15, 14, 13, 11, 7, 6, 5)),
                         ((3, 5, 11, 17, 14), (42, 30, 19, 8, 3))):
        for total in sums:
            graph = parallel([(w, w, False) for w in widths])
            faults += expect(tool, f"widths {widths}, {total}", graph, WIDE + total,
                             sum(widths) - total)
    return faults


def check_products(tool):
    faults = []
    for sizes, rows in ((((1, 4), (2, 2)), ((4, 4),)),
                        (((4, 4), (6, 2), (2, 6)), ((28, 24), (16, 88)))):
        for budget, extra in rows:
            graph = parallel([(n * n * m, n * m, False) for n, m in sizes])
            faults += expect(tool, f"products {sizes}, {budget}", graph, WIDE + budget, extra)
    for s, d, which in ((1, 1, "mm"), (1, 3, "attn"), (2, 2, "mm"), (2, 1, "mm"), (2, 5, "attn"),
                        (4, 7, "mm"), (4, 9, "attn")):
        times = {"attn": 4 * s * s * d, "mm": 2 * s * d * d}
        graph = parallel([(time, s * d, False) for time in times.values()])
        faults += expect(tool, f"attention or product, {s} x {d}", graph, WIDE + 12 * s * d // 10,
                         times[which])
    return faults


def check_ilp(tool):
    """copy_, add, div, mm, dropout, linear with relu_ in place; t is a view that stays for free."""
    items = [(5, 0, True), (5, 100, False), (8, 100, False), (15, 120, False), (15, 0, True),
             (14, 100, False)]
    faults = []
    for budget, kept in ((0, "10001000"), (100, "10001101"), (120, "10011000"), (200, "10101101"),
                         (220, "10011101"), (320, "10111101"), (420, "11111101")):
        times = (5, 5, 8, 15, 15, 9, 1, 5)
        extra = sum(t for t, flag in zip(times, kept) if flag == "0")
        faults += expect(tool, f"operator table, {budget}", parallel(items), WIDE + budget, extra)
    return faults


MIB = 2**20
MODEL_ROWS = ((144.2, 0), (47.9, 82.6), (106.1, 0), (70.8, 28.4), (42.9, 52.8), (66.6, 34.9),
              (89.1, 18.5), (79.4, 18.5), (69.4, 39.7), (62.2, 41.8), (51.1, 50.6), (44.6, 52.4),
              (65.1, 63.8), (68.8, 63.8))


class Llama(Graph):
    """8 layers, d 256, hidden 704, 4 heads, vocabulary 1024, 2 x 512 tokens, fp32. Only products and
    attention take time, in Mflop; gradients of parameters stay to the end."""
    T, D, H, V = 1024, 256, 704, 1024  # tokens, width, hidden, vocabulary

    def __init__(self):
        super().__init__()
        self.back = []  # functions that add a node's backward pass, given the gradient of its value
        self.forward_time = 0

    def product(self, x, n, m):
        time, size = 2e-6 * self.T * n * m, 4 * self.T * m
        y = self.add(time, size, [x])
        self.forward_time += time

        def back(dy):
            self.add(time, 0, [x, dy], lasting=4 * n * m)
            return {x: self.add(time, 4 * self.T * n, [dy])}
        self.back.append((y, back))
        return y

    def pointwise(self, inputs, m, reads):
        """`reads`: by input, the values besides dy that its gradient reads."""
        y = self.add(0, 4 * self.T * m, inputs)

        def back(dy):
            return {x: self.add(0, 4 * self.T * m, [dy, *(y if r == "y" else r for r in reads[x])])
                    for x in inputs}
        self.back.append((y, back))
        return y

    def sum(self, a, b):
        y = self.add(0, 4 * self.T * self.D, [a, b])
        self.back.append((y, lambda dy: {a: dy, b: dy}))
        return y

    def norm(self, x):
        scale = self.add(0, 4 * self.T, [x])
        y = self.add(0, 4 * self.T * self.D, [x, scale])

        def back(dy):
            self.add(0, 0, [dy, x, scale], lasting=4 * self.D)
            return {x: self.add(0, 4 * self.T * self.D, [dy, x, scale])}
        self.back.append((y, back))
        return y

    def attention(self, q, k, v):
        time = 4e-6 * self.T * 512 * self.D
        y = self.add(time, 4 * self.T * self.D + 4 * self.T * 4, [q, k, v])
        self.forward_time += time

        def back(dy):
            everything = self.add(2.5 * time, 3 * 4 * self.T * self.D, [q, k, v, y, dy])
            return {x: self.add(0, 0, [everything], alias=everything) for x in (q, k, v)}
        self.back.append((y, back))
        return y

    def layer(self, x):
        n = self.norm(x)
        a = self.attention(*(self.product(n, self.D, self.D) for _ in range(3)))
        x = self.sum(x, self.product(a, self.D, self.D))
        n = self.norm(x)
        gate, up = self.product(n, self.D, self.H), self.product(n, self.D, self.H)
        s = self.pointwise([gate], self.H, {gate: [gate]})
        p = self.pointwise([s, up], self.H, {s: [up], up: [s]})
        return self.sum(x, self.product(p, self.H, self.D))

    def build(self):
        x = first = self.add(0, 4 * self.T * self.D)
        for _ in range(8):
            x = self.layer(x)
        logits = self.product(self.norm(x), self.D, self.V)
        gradients = {logits: [self.add(0, 4 * self.T * self.V, [logits])]}
        for y, back in reversed(self.back):
            dy = gradients[y][0]
            for other in gradients[y][1:]:
                dy = self.add(0, self.nodes[y]["bytes"], [dy, other])
            for x, dx in back(dy).items():
                gradients.setdefault(x, []).append(dx)
        self.add(0, 0, gradients[first][:1], lasting=4 * self.V * self.D)
        return self


def check_model(tool):
    graph = Llama().build()
    _, peak = simulate(graph.nodes, list(range(len(graph.nodes))))
    print(f"model: {len(graph.nodes)} nodes, peak {peak / MIB:.1f} MiB as given, "
          f"forward {graph.forward_time / 1e3:.2f} Gflop")
    faults = [] if abs(graph.forward_time / 1e3 - 17.98) < 0.01 else ["another model"]
    for mib, share in MODEL_ROWS:
        faults += expect(tool, f"model at {mib} MiB, {share} %", graph, int(mib * MIB),
                         graph.forward_time * share / 100)
    return faults


def main():
    tool = sys.argv[1]
    faults = check_chain(tool) + check_sums(tool) + check_products(tool) + check_ilp(tool)
    faults += check_model(tool)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

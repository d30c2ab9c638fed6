# SPDX-License-Identifier: Apache-2.0
"""remat.problem: what is planned of a step that was traced without weights is what is planned when it runs; for a GPU
attention keeps no matrix of scores; the curve is of plans, and its picture has them all."""
import copy
import json
import pathlib
import tempfile
import xml.etree.ElementTree as xml

import torch
from torch import nn
from torch.nn import functional as F

import around
import harness
import remat

BATCH, HEADS, ROWS, WIDTH = 2, 4, 128, 32


def same_plans():
    """Real training on this CPU, and a trace of a model on the meta device for its description."""
    model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.Tanh(), nn.Dropout(0.1))))
    optimizer = torch.optim.AdamW(model.parameters())
    noise = torch.randn(256, 64)

    def loss(model, batch):
        return model(batch).square().mean()
    empty = copy.deepcopy(model).to("meta")
    problem = remat.problem(empty, noise.to("meta"), loss, torch.optim.AdamW(empty.parameters()), target="cpu")
    for budget in ("1GB", "900kB"):
        torch.compiler.reset()
        model.zero_grad()
        backend = remat.backend(budget, model=model, optimizer=optimizer, kernels="aot_eager", costs="cpu")
        torch.compile(lambda: loss(model, noise), backend=backend)().backward()
        traced, ran = (json.loads(one.json()) for one in (problem.plan(budget), backend.report()))
        for fields in (traced, ran):
            fields["remarks"] = []
            for graph in fields["graphs"]:  # module paths are of the function that was compiled
                graph["modules"] = sorted((one["saved_bytes"], one["recomputed_bytes"]) for one in graph["modules"])
                graph["peak_at"] = ""
        harness.check(traced == ran, f"{budget}: the trace plans {traced}, the step {ran}")
    harness.check(ran["graphs"][0]["reruns"], "the small budget shows nothing")
    harness.check(all(one.grad is None or one.grad.device.type == "cpu" for one in model.parameters()), "model changed")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH, dtype=torch.bfloat16) for _ in range(3))

    def forward(self, x, **settings):
        return F.scaled_dot_product_attention(self.a(x), self.b(x), self.c(x), **settings)


def on_gpu():
    """Saved are queries, keys, values, the result and one f32 for each row; the input is not counted."""
    with torch.device("meta"):
        model, x = Attention(), torch.empty(BATCH, HEADS, ROWS, WIDTH, dtype=torch.bfloat16)
        mask = torch.empty(ROWS, ROWS, dtype=torch.bool)
    expected = 4 * BATCH * HEADS * ROWS * WIDTH * 2 + BATCH * HEADS * ROWS * 4
    for settings in ({}, {"is_causal": True, "dropout_p": 0.1}, {"attn_mask": mask}):
        problem = remat.problem(model, (x, settings), lambda model, batch: model(batch[0], **batch[1]).float().sum())
        graph = problem.plan("1GB").graphs[0]
        beside = ROWS * ROWS * 2 if "attn_mask" in settings else 0  # the mask as numbers
        harness.check(0 <= graph.saved_bytes - expected <= beside + 4096,
                      f"attention with {list(settings)} saves {graph.saved_bytes} bytes, {expected} expected")
        harness.check(graph.planned_peak_bytes % 512 == 0, f"{graph.planned_peak_bytes} bytes, not rounded as CUDA's")
    harness.check(all(one.is_meta for one in model.parameters()), "the model left the meta device")


def drawn():
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(4)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    problem = remat.problem(model, torch.empty(4096, WIDTH, device="meta"), lambda model, x: model(x).sin().mean(),
                            optimizer=optimizer, target="a100-80")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "c.svg"
        points = problem.curve(path, points=4)
        picture = xml.parse(path).getroot()
    circles = [one for one in picture.iter() if one.tag.endswith("circle")]
    places = [float(one.get("cx")) for one in circles], [float(one.get("cy")) for one in circles]
    harness.check(len(points) == len(circles) == 4, f"{len(points)} points, {len(circles)} drawn")
    harness.check(places == (sorted(places[0]), sorted(places[1])), "the curve rises, or its points are in disorder")
    for (budget, overhead, bound), (_, later, _) in zip(points, points[1:]):
        harness.check(overhead >= later and 0 <= bound <= overhead, f"at {budget}: {overhead}, {later} later, {bound}")
        harness.check(problem.plan(budget, margin=0).planned_peak_bytes <= budget, f"a plan above {budget}")
    harness.check(points[0][1] > 0 and points[-1][1] == 0, f"the ends are {points[0]} and {points[-1]}")
    around.wanted(lambda: problem.plan(points[0][0] // 2), remat.InfeasibleBudget, "no plan fits the budget")


def larger_than_a_device():
    with torch.device("meta"):
        model, x = nn.Linear(600_000, 600_000, bias=False), torch.empty(16, 600_000)
    problem = remat.problem(model, x, lambda model, x: model(x).square().mean())
    points = problem.curve(points=2)
    harness.check(points[-1][0] > 2.8 * 10**12, f"a model of terabytes: {points}")
    around.wanted(lambda: problem.curve(points=1), remat.Error, "points=1")


def refused():
    model, x = nn.Linear(WIDTH, WIDTH), torch.empty(8, WIDTH)

    def with_autocast(model, x):
        with torch.autocast("cuda", torch.bfloat16):
            return model(x).float().sum()

    def with_break(model, x):
        torch._dynamo.graph_break()
        return model(x).sum()
    around.wanted(lambda: remat.problem(model, x, with_autocast), remat.Refused, "autocast for cuda")
    around.wanted(lambda: remat.problem(model, x, with_break), Exception, "graph_break")
    around.wanted(lambda: remat.problem(model, x, lambda model, x: x.sum()), remat.Error, "no gradient")
    around.wanted(lambda: remat.problem(model, x, lambda model, x: model(x).sum(), target="h101"), remat.Error, "h101")
    other = torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1)
    around.wanted(lambda: remat.problem(model, x, lambda model, x: model(x).sum(), optimizer=other), remat.Error,
                  "not of the model")


def main():
    for check in (same_plans, on_gpu, drawn, larger_than_a_device, refused):
        check()
        print(f"  {check.__name__}", flush=True)

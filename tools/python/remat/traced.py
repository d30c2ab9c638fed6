# SPDX-License-Identifier: Apache-2.0
"""A training step that is planned without weights and without its device: the model is traced on fake tensors.

PyTorch's autograd needs a driver for tensors of a GPU, so the trace is of fake tensors of a CPU. For a GPU attention is
replaced by what PyTorch runs there, and the tensors of the traced graph pass for the GPU's afterwards."""
import copy

import torch
from torch import fx

from . import arguments, costs as costs_of, picture
from ._backend import Backend, Planned
from ._torch import BackendCompilerFailed, FakeTensor, FakeTensorMode, enter_autocast, tree_leaves, tree_map
from .errors import Error, InfeasibleBudget, Refused

POINTS = 12  # of a curve
NO_LIMIT = 2**60  # bytes


class Done(Exception):
    """Ends a trace: nothing is compiled."""


class Tracer(Backend):
    """Keeps what a plan is made of."""

    def __init__(self, on_gpu, **settings):
        super().__init__(NO_LIMIT, kernels="aot_eager", **settings)
        self.on_gpu, self.kept = on_gpu, None

    def __call__(self, module, example_inputs, **settings):
        if self.on_gpu:
            run_as_on_gpu(module)
        return super().__call__(module, example_inputs, **settings)

    def _is_whole(self, inputs):
        return True

    def _partition(self, graph, variant, joint_module, joint_inputs, **facts):
        if self.on_gpu:
            pass_for_gpu([node.meta.get("val") for node in joint_module.graph.nodes])
            pass_for_gpu([*self.model.parameters(), *self.model.buffers()])
        return super()._partition(graph, variant, joint_module, joint_inputs, **facts)

    def plan(self, *facts):
        self.kept = facts
        raise Done


class Problem:
    """A step to be planned within any budget. `curve` draws the trade of memory for time."""

    def __init__(self, kept, **settings):
        self._kept, self._settings = kept, settings

    def plan(self, budget, margin=0.05):
        """The report of a plan within the budget; InfeasibleBudget if none is found."""
        backend = Backend(budget, kernels="aot_eager", margin=margin, **self._settings)
        graph, _, _ = backend.plan(*self._kept)
        backend.planned.append(Planned(graph, 0))
        backend.remarks.append("traced on fake tensors: nothing was measured")
        return backend.report()

    def curve(self, path=None, points=POINTS):
        """(budget in bytes, overhead, proven bound of it) from the smallest budget to everything saved, no margin
        counted. `path` is of an SVG picture of it."""
        if points < 2:
            raise Error(f"points={points}: a curve has two at least")
        least, most = self._least(), self.plan(NO_LIMIT, margin=0)
        most = most.planned_peak_bytes - most.graphs[0].planned_peak_bytes + most.graphs[0].everything_saved_bytes
        budgets = sorted({int(least + (most - least) * step / (points - 1)) for step in range(points)})
        found = []
        for budget in budgets:
            graph = self.plan(budget, margin=0).graphs[0]
            fastest = min([graph.overhead, *(overhead for _, overhead, _ in found[-1:])])  # what fits less fits more
            found.append((budget, fastest, min(graph.bound, fastest)))
        if path is not None:
            picture.draw(path, found, self._settings["costs"])
        return found

    def _least(self):
        budget = 1
        while True:
            try:
                self.plan(budget, margin=0)
                return budget
            except InfeasibleBudget as error:
                budget = error.smallest_bytes or max(error.floor_bytes, budget + 1)


def problem(model, batch, loss, optimizer=None, target="h100-sxm", accumulate=None, options=None):
    """`loss(model, batch)` is the loss of a step; model and batch may be of any device, "meta" included, and are not
    changed. `target` is a device that remat knows by name."""
    on_gpu = bool({"cuda", "rocm"} & set(costs_of.described(target)))
    arguments.check_model(model)
    mode, copies = FakeTensorMode(), {}
    for one in [*model.parameters(), *model.buffers(), *_constants(model), *tree_leaves(batch)]:
        if isinstance(one, torch.Tensor):
            copies[id(one)] = _fake(mode, one)
    fake = copy.deepcopy(model, dict(copies))
    given = tree_map(lambda one: copies.get(id(one), one), batch)
    settings = {"model": fake, "optimizer": _of_copies(optimizer, copies), "costs": target, "accumulate": accumulate,
                "options": options}
    tracer = Tracer(on_gpu, **settings)
    try:
        with mode:
            torch.compile(lambda: loss(fake, given), backend=tracer, fullgraph=True)()
    except (Done, BackendCompilerFailed) as error:
        inner = getattr(error, "inner_exception", error)
        if not isinstance(inner, Done):
            raise inner if isinstance(inner, Error) else error
    if tracer.kept is None:
        raise Error("the loss has no gradient: no graph with a backward pass was traced")
    return Problem(tracer.kept, **settings)


def _constants(model):
    """Tensors that are neither parameters nor buffers."""
    return [one for module in model.modules() for one in vars(module).values() if isinstance(one, torch.Tensor)]


def _fake(mode, tensor):
    with mode:
        found = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(found, tensor.requires_grad)
    return found.requires_grad_(tensor.requires_grad)


def _of_copies(optimizer, copies):
    """The optimizer as the package counts its bytes: class and groups, of the copies and before its first step."""
    if optimizer is None:
        return None
    arguments.check_optimizer(optimizer)
    if any(id(one) not in copies for group in optimizer.param_groups for one in group["params"]):
        raise Error("the optimizer has parameters that are not of the model")
    found = object.__new__(type(optimizer))
    found.state = {}
    found.param_groups = [group | {"params": [copies[id(one)] for one in group["params"]]}
                          for group in optimizer.param_groups]
    return found


def run_as_on_gpu(module):
    for part in module.modules():
        for node in part.graph.nodes if isinstance(part, fx.GraphModule) else ():
            if node.target is torch._C._nn.scaled_dot_product_attention:
                node.target = attention
            if node.target is enter_autocast and node.args[0] != "cpu":
                raise Refused(f"autocast for {node.args[0]} is not traced without one: make the model of the dtype")
        if isinstance(part, fx.GraphModule):
            part.recompile()


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """PyTorch's flash attention where it runs that, else its memory-efficient attention."""
    if attn_mask is None and query.dtype in (torch.float16, torch.bfloat16) and query.shape[-1] <= 256:
        return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal,
                                                                  scale=scale)[0]
    if enable_gqa:
        key, value = (one.repeat_interleave(query.shape[-3] // one.shape[-3], -3) for one in (key, value))
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, float("-inf"))
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
    return torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, attn_mask, query.requires_grad,
                                                                  dropout_p, is_causal, scale=scale)[0]


def pass_for_gpu(values):
    for one in tree_leaves(values):
        if isinstance(one, FakeTensor):
            one.fake_device = torch.device("cuda", 0)

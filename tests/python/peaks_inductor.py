# SPDX-License-Identifier: Apache-2.0
"""The peak that the allocator sees of a step with Inductor's kernels, for the models of peaks.py at budgets between the
smallest that is found and the fastest plan: it is within the budget in 95 % of the pairs, never 5 % above it, and not
below 0.75 of Inductor's own account, which is exact where PyTorch's kernels allocate nothing beside their results; what
the autograd engine holds between the passes is what was planned, to the byte.

    main(KIND, BUDGETS, MODEL...)   KIND of kernels.KINDS; so many budgets of each model, or of all"""
import torch

import budgets
import compiled
import harness
import kernels
import peaks

WITHIN, ABOVE, BELOW, EXACT = 0.95, 1.05, 0.75, 1.001
# oneDNN's convolutions allocate for themselves, by scratch.py at most so much.
WITH_SCRATCH = ("convolutions", "batch_norms", "separable", "coarser")


def main(kind="without-loops", count="5", *names):
    shares = []
    with kernels.cache(), kernels.KINDS[kind].compiling():
        for name in names or peaks.MODELS:
            with kernels.KINDS["interpreted"].compiling():
                least, fastest = bounds(name)
            harness.check(fastest >= peaks.LEAST_BYTES, f"{name}: {fastest} bytes are too few to compare")
            steps = max(int(count) - 1, 1)
            asked = {least + max(fastest - least, 0) * index // steps for index in range(int(count))}
            shares += [compare(name, budget) for budget in sorted(asked)]
    within = sum(share <= 1 for share in shares) / len(shares)
    harness.check(within >= WITHIN, f"{100 * within:.1f} % of {len(shares)} pairs are within their budgets")
    print(f"  {len(shares)} pairs, {100 * within:.1f} % within the budget, at most {max(shares):.4f} of it", flush=True)


def made(name):
    torch.compiler.reset()
    torch.manual_seed(0)
    model, loss = peaks.MODELS[name]()
    return model.train(), loss


def bounds(name):
    """Bytes by Inductor's account at the smallest budget that is found, and of the fastest plan."""
    _, loss = made(name)
    try:
        torch.compile(loss, backend=budgets.plain("1B", kernels="inductor"))()
    except torch._dynamo.exc.BackendCompilerFailed as error:
        least = error.inner_exception.smallest_bytes
    _, loss = made(name)
    backend = budgets.plain(budgets.EVERYTHING, kernels="inductor")
    torch.compile(loss, backend=backend)()
    return least, backend.report().graphs[0].estimated_peak_bytes


def compare(name, budget_bytes):
    """The measured peak as a share of the budget."""
    model, loss = made(name)
    backend = budgets.plain(budget_bytes, kernels="inductor")
    run = torch.compile(loss, backend=backend)
    run().backward()
    model.zero_grad(set_to_none=True)
    graph = backend.report().graphs[0]
    measured, running = peaks.measure(lambda: run().backward())
    model.zero_grad(set_to_none=True)
    given = [cell.cell_contents for cell in loss.__closure__ if torch.is_tensor(cell.cell_contents)]
    held = compiled.held_bytes(model, lambda f: f(), run, given)
    harness.check(measured <= ABOVE * budget_bytes, f"{name}: {measured} bytes measured, the budget is {budget_bytes}")
    least, most = (BELOW, ABOVE) if name in WITH_SCRATCH else (1 / EXACT, EXACT)
    harness.check(least <= measured / graph.estimated_peak_bytes <= most,
                  f"{name}: {measured} bytes measured, {graph.estimated_peak_bytes} by Inductor: {running}")
    harness.check(held == graph.saved_bytes, f"{name}: {held} bytes are held, {graph.saved_bytes} were planned")
    print(f"| {name} | {budget_bytes} | {graph.planned_peak_bytes} | {graph.estimated_peak_bytes} | "
          f"{measured / graph.estimated_peak_bytes:.4f} | {measured / budget_bytes:.4f} | {100 * graph.overhead:.2f} % |"
          f"{' guarded' if graph.guarded else ''}", flush=True)
    return measured / budget_bytes

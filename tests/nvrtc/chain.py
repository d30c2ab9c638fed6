# SPDX-License-Identifier: Apache-2.0
"""How long a warp takes for a step of a loop whose end is not known, such as that which adds rows in order.

The compiler writes into each instruction for how many clocks the next one waits, and numbers of barriers: which one
is passed when the result is there, which one when the operands are read, and for which ones it waits itself (of the
upper 64 bits: 4 from bit 41 on, 3 from 46, 3 from 49, 6 from 52, as CuAssembler documents). What this leaves open are
the latencies that barriers wait for: measured ones, of an H100 (arXiv 2402.13499)."""
import sass

MEMORY_CLOCKS = 479  # 263 where the L2 has it
SHARED_CLOCKS = 29  # of shared memory; assumed of whatever else passes a barrier


class Chain(sass.Thread):
    """The first warp's clock, without other warps. All rows have one id: no sum is stored on the way."""

    def __init__(self, code, words):
        super().__init__(code, words, 0, 0)
        self.clock = self.wait = 0
        self.passed, self.reached, self.step_clocks = [0] * 6, {}, None

    def issue(self, at, runs):
        super().issue(at, runs)
        control = self.code[at].control
        waits = [self.passed[k] for k in range(6) if control >> 52 + k & 1]
        self.clock = max([self.clock + self.wait, *waits])
        self.wait = max(1, control >> 41 & 15)
        self.reached.setdefault(at, self.clock)
        latency = MEMORY_CLOCKS if self.code[at].name == "LDG" else SHARED_CLOCKS
        for barrier, clocks in ((control >> 46 & 7, latency), (control >> 49 & 7, SHARED_CLOCKS)):
            if barrier < 6 and runs:
                self.passed[barrier] = max(self.passed[barrier], self.clock + clocks)

    def branch(self, at, instruction, runs):
        after, target = super().branch(at, instruction, runs), instruction.target
        skipped = {code.name for code in self.code[at + 1:target]}
        if "STG" in skipped and "BRA" not in skipped:
            return target
        if after == at + 1 and target < at:
            self.step_clocks = self.clock - self.reached[target]
        return after


def step_clocks(code, words):
    chain = Chain(code, words)
    chain.run()
    return chain.step_clocks

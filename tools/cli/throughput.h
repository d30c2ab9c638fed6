/* SPDX-License-Identifier: Apache-2.0 */
/* A step as people compare it: tokens a second, and the share of the hardware's peak that the model
 * uses. */
#ifndef REMAT_TOOLS_THROUGHPUT_H
#define REMAT_TOOLS_THROUGHPUT_H

#include "size.h"

struct cli_throughput {
    double tokens_per_s, rank_tokens_per_s; /* of all ranks, of one; 0: not known */
    double mfu; /* model flops utilization (docs/cost_model.md), 0 to 1; 0: not known */
};

/* Of a step of `tokens` on all ranks, which takes model_ns at the target's peak. */
struct cli_throughput cli_throughput(uint64_t tokens, uint32_t ranks, uint64_t model_ns,
                                     uint64_t step_ns);

/* "36,536", below 100 with two digits more. */
struct cli_buffer cli_rate(double rate);

/* "26,600 tokens/s, 3,325 a GPU; MFU 41.2 %", with what is known; "": nothing is. `rank`: what a
 * rank is, "GPU". */
struct cli_buffer cli_throughput_text(const struct cli_throughput *throughput, uint32_t ranks,
                                      const char *rank);

#endif

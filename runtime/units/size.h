/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and times, as people read and type them. */
#ifndef REMAT_SIZE_H
#define REMAT_SIZE_H

#include <remat/status.h>
#include <stdbool.h>
#include <stdint.h>

/* "80GB" = 80e9, "80GiB" = 80 * 2^30, "1.5MB", "4096", "90%" of `capacity`. Case does not matter; a
 * bare "80G" is an error that shows both readings. `setting` ("--budget") starts every message;
 * `zero`: 0 is a size too. */
remat_status remat_size_parse(remat_context *ctx, const char *setting, const char *text,
                              uint64_t capacity, bool zero, uint64_t *bytes);

/* duration.c: "500ms", "10s", "2min", "1.5h", "3h50m"; a bare "10" is seconds. `setting`
 * ("--time-limit") starts the message. REMAT_ERROR_USAGE: it is no time from 1 ms to 1,000,000 s.
 */
remat_status remat_duration_parse(remat_context *ctx, const char *setting, const char *text,
                                  double *seconds);

#define REMAT_UNIT_TEXT_BYTES 64
struct remat_unit_text {
    char text[REMAT_UNIT_TEXT_BYTES];
};
/* For printf: remat_exact_text(n).text is "2,200,000,000 B (2.05 GiB)", remat_short_text(n).text
 * "2.20 GB", remat_brief_text(n).text "2.2 GB", remat_time_text(ns).text "12.3 ms". */
struct remat_unit_text remat_exact_text(uint64_t bytes);
struct remat_unit_text remat_count_text(uint64_t number); /* "2,200,000,000" */
struct remat_unit_text remat_short_text(uint64_t bytes);
struct remat_unit_text remat_brief_text(uint64_t bytes);
struct remat_unit_text remat_enough_text(uint64_t bytes); /* as remat_short_text, rounded up */
struct remat_unit_text remat_time_text(uint64_t ns);
/* How much longer, for "%.*f" with so many digits: none is printed as "-0.00". 0 where `than_ns`
 * is. */
double remat_percent_longer(uint64_t ns, uint64_t than_ns, int digits);

struct remat_throughput {
    double tokens_per_s, rank_tokens_per_s; /* of all ranks, of one; 0: not known */
    double mfu; /* model flops utilization (docs/cost_model.md), 0 to 1; 0: not known */
};

/* Throughput of a step of `tokens` on all ranks, which takes model_ns at the target's peak. */
struct remat_throughput remat_throughput_of(uint64_t tokens, uint32_t ranks, uint64_t model_ns,
                                            uint64_t step_ns);

/* "36,536", below 100 with two digits more. */
struct remat_unit_text remat_rate_text(double rate);

/* "26,600 tokens/s, 3,325 a GPU; MFU 41.2 %", with what is known; "": nothing is. `rank`: what a
 * rank is, "GPU". */
struct remat_unit_text remat_throughput_text(const struct remat_throughput *throughput,
                                             uint32_t ranks, const char *rank);

#endif

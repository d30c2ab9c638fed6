/* SPDX-License-Identifier: Apache-2.0 */
/* The bits of a plan whose streams run in any order that docs/formats.md allows, where every
 * command is a hash of its number and of the bytes that it reads: they have to be those of the
 * plan's own order. A transfer takes time: what it writes is no value until it is complete, and
 * what it reads must not change. Shares no code with the verifier and the simulator. */
#ifndef FUZZ_ORDERS_H
#define FUZZ_ORDERS_H

#include "mutate.h"
#include "program.h"

struct orders;

/* For plans with as many commands, operands and buffers as this one. Ends the process without
 * memory. */
struct orders *orders_create(const struct remat_program *program);
void orders_destroy(struct orders **orders);

/* Runs each segment of a plan that is well formed as often as that, at random: as late as may be,
 * as early as may be and in between. "": the bits are always the same; else the first difference,
 * valid until the next call. */
const char *orders_try(struct orders *orders, const struct remat_program *program,
                       struct random *random, uint32_t runs);

#endif

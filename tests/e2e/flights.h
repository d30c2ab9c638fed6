/* SPDX-License-Identifier: Apache-2.0 */
/* Plans whose transfers go on for as long as nothing needs them, made of plans with transfers in
 * line, and what is wrong with others. Looks at every command and buffer for every transfer. */
#ifndef TESTS_E2E_FLIGHTS_H
#define TESTS_E2E_FLIGHTS_H

#include "harness.h"

/* Gives each transient buffer bytes of its own. */
void flights_spread(remat_context *ctx, struct remat_arena *arena, struct remat_program *program);
/* Reorders the commands of each segment, which share none, so that what a transfer brings is used
 * later, where something else can be done meanwhile. */
void flights_defer(remat_context *ctx, struct remat_arena *arena, struct remat_program *program);
/* Each transfer is complete before the first command that writes what it reads, uses what it
 * writes, or for which one of the two makes room; its buffers live until then. */
void flights_stretch(struct remat_program *program);
/* Transfers of one kind that follow each other are a group, where none needs another. */
void flights_group(struct remat_program *program);
/* Every second group that starts while a transfer along another axis goes on waits for it, though
 * it need not. Returns how many do. */
uint32_t flights_wait(struct remat_program *program);
/* All of these; returns how many groups wait. */
uint32_t flights_all(remat_context *ctx, struct remat_arena *arena, struct remat_program *program);
/* How many transfers are overlapped, and the most that are in flight at once. */
uint32_t flights_count(const struct remat_program *program);
uint32_t flights_most(const struct remat_program *program);
/* What the program claims of its buffers, after these were changed. */
void flights_claim(struct remat_program *program);

/* A copy of everything that these functions and tests change. */
struct remat_program *flights_copy(remat_context *ctx, struct remat_arena *arena,
                                   const struct remat_program *program);

bool flights_is_transfer(const struct remat_program *program, uint32_t command);
/* The end of the shortest segment that has the command. */
uint32_t flights_segment_end(const struct remat_program *program, uint32_t command);
/* Of a transfer's operand, 0: what it reads, 1: what it writes. */
struct remat_buffer *flights_buffer(const struct remat_program *program, uint32_t command,
                                    uint32_t operand);

#endif

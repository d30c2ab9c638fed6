/* SPDX-License-Identifier: Apache-2.0 */
/* What each buffer of a rank holds, and who uses it at this moment: found wrong are a read of what
 * is not there and two uses at once of bytes that one of them writes. Each buffer has the number of
 * the value that was written there, in place of its bytes. Shares no code with the verifier. */
#ifndef TESTS_SLEEP_ACCESSES_H
#define TESTS_SLEEP_ACCESSES_H

#include "program.h"

struct accesses;

/* `program` is borrowed, and so is `other`, which has the same one, unless it is NULL: what does
 * not change is found once. Ends the process without memory. */
struct accesses *accesses_create(const struct remat_program *program, const struct accesses *other);
void accesses_destroy(struct accesses **accesses);

/* Around the time in which a command uses its operands; from any thread. */
void accesses_begin(struct accesses *accesses, uint32_t command);
void accesses_end(struct accesses *accesses, uint32_t command);

/* The first thing that was wrong; "" where nothing was. */
const char *accesses_message(const struct accesses *accesses);

#endif

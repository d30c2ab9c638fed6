/* SPDX-License-Identifier: Apache-2.0 */
/* Private to exec: transfers by the engine of a rank. */
#ifndef REMAT_TRANSFER_H
#define REMAT_TRANSFER_H

#include "session_state.h"

/* Takes the engine of `params`, which has to fit the plan. */
remat_status remat_session_set_engine(remat_session *session, const remat_session_params *params);
/* Joins engine and device, which have to fit each other, and finds room for what is copied; the
 * device then waits with a deadline. */
remat_status remat_session_join_engine(remat_session *session);
/* Writes this rank's coordinates into their tensors, at the end of "init". */
remat_status remat_session_write_coordinates(remat_session *session);
/* Describes the next transfer to the engine, all but what only remat_session_move knows. */
void remat_session_describe(remat_session *session, uint32_t command, remat_transfer *out);
/* Number of transfers of a run of the entry point; the commands of the first and the last one. */
uint64_t remat_entry_transfers(const struct remat_program *program, const struct remat_entry *entry,
                               uint32_t *first, uint32_t *last);
/* Makes the group that begins with that flight; on a GPU with an engine for its memory, enqueues
 * it. On the host it uses nothing of the session that changes in a run, so it may go on beside
 * commands. `message` is empty before; where it is empty after a failure, the context has one. */
remat_status remat_session_move(const struct remat_session_link *link, uint32_t first,
                                char *message);
/* An engine that moves the device's memory has failed. */
bool remat_session_is_abandoned(const remat_session *session);
/* Tells the engine that an entry point failed, unless the engine said so itself. */
void remat_session_fail(remat_session *session, remat_status status);

#endif

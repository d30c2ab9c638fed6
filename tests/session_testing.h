/* SPDX-License-Identifier: Apache-2.0 */
/* Checks on the memory of a session. The device must be the host's. Hidden symbols are needed: link
 * the archive of exec. */
#ifndef SESSION_TESTING_H
#define SESSION_TESTING_H

#include "plan.h"

/* After each command, ranges of buffers whose lifespan ended are filled with NaN (0x7fc0dead). */
void remat_session_poison(remat_session *session, bool on);

/* Fills the arena from that offset on with a pattern; afterwards, the end of the highest byte that
 * differs from it. What is painted must be written anew: the statics by init. */
void remat_session_paint(remat_session *session, uint64_t from_bytes);
uint64_t remat_session_touched_bytes(const remat_session *session);

/* From now on every command may change bytes only inside the buffers of the values it writes, and
 * what no live buffer covers is filled with NaN before it: otherwise `run` fails with
 * REMAT_ERROR_INTERNAL and a message that names the command and the byte. Slow; takes a copy of the
 * arena from the context's allocator. */
remat_status remat_session_guard(remat_session *session);

/* The arena, for tests that look into it. */
char *remat_session_arena(remat_session *session);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Private to exec: running an entry point. */
#ifndef REMAT_RUN_H
#define REMAT_RUN_H

#include "session_state.h"

/* The most that the trace of one command copies. */
uint64_t remat_session_copied_bytes(const struct remat_session *session);

#endif

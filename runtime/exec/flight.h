/* SPDX-License-Identifier: Apache-2.0 */
/* Private to exec: transfers that were started, until a command needs that they are complete. */
#ifndef REMAT_FLIGHT_H
#define REMAT_FLIGHT_H

#include "session_state.h"

remat_status remat_flights_create(remat_session *session);
void remat_flights_destroy(remat_session *session);
/* The group is started with its last transfer, and *started says so. `slot`, not 0, of a device
 * without memory of the host, and used where a group begins: marks its begin there, its end in the
 * next one. */
remat_status remat_flight_start(remat_session *session, uint32_t command, uint32_t slot,
                                bool *started);
/* Those of a link that are complete before `command`, REMAT_NONE for all, and those that were
 * started before them; what is executed next finds them done. They are link->flights[*first] and so
 * on, until the next start. */
remat_status remat_flights_complete(struct remat_session_link *link, uint32_t command,
                                    uint32_t *first, uint32_t *count);
/* After a failure: drops what has not begun, and waits for what has. */
void remat_flights_clear(remat_session *session);

#endif

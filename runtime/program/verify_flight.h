/* SPDX-License-Identifier: Apache-2.0 */
/* A part of remat_program_verify: commands beside transfers. */
#ifndef REMAT_VERIFY_FLIGHT_H
#define REMAT_VERIFY_FLIGHT_H

#include "verify.h"

/* Command `index`, just after remat_verify_command, leaves alone what transfers before it use until
 * they are complete; and if it is one, what it uses lives for as long. */
remat_status remat_verify_flights_begin(struct remat_verifier *verifier);
remat_status remat_verify_flights(struct remat_verifier *verifier, uint32_t index);

#endif

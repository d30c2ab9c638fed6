/* SPDX-License-Identifier: Apache-2.0 */
/* --emit-policy: a policy as Python that users import. */
#ifndef REMAT_DUMP_EMIT_POLICY_H
#define REMAT_DUMP_EMIT_POLICY_H

#include "framework_policy.h"

/* `planned` has the policy's peak and time, the program itself where there are no differences;
 * NULL: they are not known. */
remat_status policy_print(struct remat_arena *arena, const struct policy *policy,
                          const struct remat_program *planned, struct remat_text *out);

#endif

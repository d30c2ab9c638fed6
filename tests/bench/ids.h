/* SPDX-License-Identifier: Apache-2.0 */
/* Ids to time steps with. */
#ifndef TESTS_BENCH_IDS_H
#define TESTS_BENCH_IDS_H

#include <remat/remat.h>

/* Writes ids by Zipf's law (tools/run/text.h) into every input of indices; how many of all are
 * distinct. */
remat_status ids_write(remat_context *ctx, remat_session *session, const remat_plan *plan,
                       uint64_t *distinct);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions one by one; the view of all: dump.h. */
#ifndef REMAT_DUMP_DECISIONS_H
#define REMAT_DUMP_DECISIONS_H

#include "dump.h"

/* A decision as an object. */
json_t *dump_decision(const struct remat_decision_record *record);

#endif

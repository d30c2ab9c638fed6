/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of ops.def with the functions of their family files. */
#include "family.h"

#define remat_shape_none  NULL
#define remat_derive_none NULL
#define remat_expand_none NULL

enum {
    COMPOSITE = REMAT_FACT_COMPOSITE,
    POINTWISE = REMAT_FACT_POINTWISE,
    ROW_REDUCE = REMAT_FACT_ROW_REDUCE,
    COLUMN_REDUCE = REMAT_FACT_COLUMN_REDUCE,
    VIEW = REMAT_FACT_VIEW,
    BUILTIN = REMAT_FACT_BUILTIN,
    IN_PLACE = REMAT_FACT_IN_PLACE,
    COMPUTE_HEAVY = REMAT_FACT_COMPUTE_HEAVY,
    RANDOM = REMAT_FACT_RANDOM,
    STATEFUL = REMAT_FACT_STATEFUL,
    COLLECTIVE = REMAT_FACT_COLLECTIVE,
    FOREIGN = REMAT_FACT_FOREIGN,
};

const struct remat_op_info remat_op_table[REMAT_OP_COUNT] = {
#define OP(name, facts, inputs_min, inputs_max, outputs, signature, executor, attributes, shape,   \
           flops, derive, expand, layout, batch)                                                   \
    {#name,                                                                                        \
     facts,                                                                                        \
     inputs_min,                                                                                   \
     inputs_max,                                                                                   \
     outputs,                                                                                      \
     signature,                                                                                    \
     (uint16_t)REMAT_##executor,                                                                   \
     attributes,                                                                                   \
     remat_shape_##shape,                                                                          \
     remat_flops_##flops,                                                                          \
     remat_derive_##derive,                                                                        \
     remat_expand_##expand,                                                                        \
     REMAT_RULE_##layout,                                                                          \
     REMAT_BATCH_RULE_##batch},
#include "ops.def"
#undef OP
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of a schedule that its transfers depend on, whatever their depth. */
#ifndef REMAT_TRANSFERS_H
#define REMAT_TRANSFERS_H

#include "schedule.h"

/* An operand that a transfer may delay: a value that a transfer, or what waits for one, reads or
 * writes. Most kernels have none. Values are numbered from 1 on; 0: it delays nothing. */
struct remat_delayed_operand {
    uint32_t before; /* the value that must be there: of what is replaced the version before */
    uint32_t value;  /* that is read or written */
    uint8_t access;  /* enum remat_access */
};

struct remat_delayed_kernel {
    uint64_t ns;
    uint32_t operand_begin, operand_end; /* of transfers.operands */
    uint32_t from, to;                   /* of an overlapped transfer: the values */
    uint32_t goes_with;                  /* of a transfer: remat_goes_with */
    bool transfer, overlapped;           /* of remat_may_overlap */
    bool early;                          /* of remat_may_start_early */
};

/* A kernel, after those that fetch its parts of parameters. */
struct remat_unit {
    uint32_t begin, end; /* of the order */
};

struct remat_transfers {
    const struct remat_price *prices;
    remat_kernel_id *order, *after; /* of remat_group_gathers */
    uint32_t count;
    struct remat_delayed_kernel *kernels; /* by kernel */
    struct remat_delayed_operand *operands;
    uint32_t value_count;                   /* numbers, 0 included */
    uint64_t computation_ns, overlapped_ns; /* least times of both streams' work */
    struct REMAT_LIST(struct remat_unit) units;
    struct REMAT_LIST(uint32_t) gets; /* positions where early groups begin */
    uint64_t *until_awaited_ns;       /* by position: computation up to the next early group, which
                                         computation waits for at once with a depth of 0 */
};

#endif

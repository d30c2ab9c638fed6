/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator that counts, bounds and, on request, fails. */
#ifndef COUNTING_H
#define COUNTING_H

#include <base.h>

struct counting {
    uint64_t live_bytes, peak_bytes, limit_bytes; /* beyond the limit: NULL, and `exceeded` */
    uint64_t calls, fail_at;                      /* the call that fails, 0: none */
    bool exceeded;
};

remat_allocator counting_allocator(struct counting *counting);

#endif

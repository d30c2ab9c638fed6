/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts that ranks have of a tensor lie in it. */
#ifndef REMAT_TOOLS_RUN_PARTS_H
#define REMAT_TOOLS_RUN_PARTS_H

#include <remat/remat.h>

static inline uint64_t element_bytes(remat_element element)
{
    return element == REMAT_ELEMENT_BF16 || element == REMAT_ELEMENT_F16 ? 2 : 4;
}

/* A run of elements that lie next to each other in a rank's part and in the whole. */
struct part_run {
    uint64_t begin, count; /* in the part */
    uint64_t whole;        /* the first one's place in the whole */
};

/* The run at `begin`, up to `end` at most. */
static inline struct part_run part_run_at(const remat_tensor_info *tensor, uint32_t rank,
                                          uint64_t begin, uint64_t end)
{
    uint64_t rest = tensor->part_run - begin % tensor->part_run;
    rest = rest < end - begin ? rest : end - begin;
    return (struct part_run){begin, rest, remat_tensor_element(tensor, rank, begin)};
}

#endif

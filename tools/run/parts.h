/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts that ranks have of a tensor lie in it. */
#ifndef REMAT_TOOLS_RUN_PARTS_H
#define REMAT_TOOLS_RUN_PARTS_H

#include <remat/remat.h>

static inline uint64_t element_bytes(remat_element element)
{
    static const uint8_t bytes_of[] = {
#define DTYPE(NAME, name, number, bytes, ...) [REMAT_ELEMENT_##NAME] = (bytes),
#include <remat/dtypes.def>
    };
    return bytes_of[element];
}

/* Elements that lie next to each other in a rank's part and in the whole. */
struct part_run {
    uint64_t count, whole; /* whole: the place of the first one in the whole */
    uint64_t kept;         /* of them: before the whole's `end` */
};

/* The run that begins at element `begin` of the part, up to element `until` at most. */
static inline struct part_run part_run_at(remat_parts parts, uint32_t rank, uint64_t begin,
                                          uint64_t until, uint64_t end)
{
    struct part_run out = {until - begin, begin, 0};
    for (int k = 2; k-- > 0;) {
        uint64_t run = parts.divisions[k].run, rest = run - out.whole % run;
        out.count = rest < out.count ? rest : out.count;
        out.whole = remat_division_element(parts.divisions[k], rank, out.whole);
    }
    uint64_t left = out.whole < end ? end - out.whole : 0;
    out.kept = out.count < left ? out.count : left;
    return out;
}

/* A rank that has part q of parts.count. */
static inline uint32_t part_holder(remat_parts parts, uint32_t q)
{
    const remat_division *d = parts.divisions;
    return q % d[0].count * d[0].rank_stride + q / d[0].count * d[1].rank_stride;
}

#endif

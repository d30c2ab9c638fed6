/* SPDX-License-Identifier: Apache-2.0 */
/* Pricing candidates of a curve: lists of them, samples of each, and what is known of one before it
 * is priced. */
#ifndef REMAT_SURVEY_H
#define REMAT_SURVEY_H

#include "choose.h"
#include "compile.h"

struct remat_survey_list {               /* of candidates of which neighbours are alike */
    uint32_t path;                       /* of the planner; REMAT_NONE: none of a path */
    const struct remat_policy *policies; /* NULL: decisions of the planner */
    uint32_t count;                      /* of samples */
    uint32_t priced_max;
    struct remat_survey_sample *samples; /* the survey fills in all but the indices */
};

struct remat_survey_sample {
    uint32_t index; /* of a path, of what is near, or in `policies` */
    bool priced;
    struct remat_least least;
    uint64_t live_peak_bytes, step_ns; /* once it is priced */
};

struct remat_survey {
    struct remat_chooser *chooser;
    struct remat_planner *planner; /* NULL: of nothing is anything known before it is priced */
    bool estimates;                /* what samples cost tells of others what they are likely to */
    struct remat_arena scratch;
    struct remat_survey_points {
        struct remat_frontier_point *items;
        size_t count, capacity;
    } points; /* of what has been priced */
    struct {
        struct remat_survey_list *items;
        size_t count, capacity;
    } lists;
    struct {
        struct remat_survey_sample *items;
        size_t count, capacity;
    } priced; /* each a decision of its own */
};

/* Prices samples of the lists [begin, end), in turns: the first and the last of each, then one in
 * the middle between every two that had theirs; at most priced_max of each list, and one however
 * early the search ends. Not priced is what by its least costs something priced is as small and as
 * fast as. With estimates, but for the ends of paths, neither what would be if it took as much more
 * as its neighbours in the list do, at least; nor what then is above the line between two samples
 * of another path, or hardly below that of a path that comes before. */
remat_status remat_survey_price(struct remat_survey *survey, size_t begin, size_t end);

/* Prices what is likely to be the first decision that has room, on the path whose sample is the
 * fastest that has, if that is not a sample itself. */
remat_status remat_survey_fill(struct remat_survey *survey, uint64_t room_bytes);

#endif

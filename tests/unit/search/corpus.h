/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of tests/corpus, each beside the device, ranks and pins that it is about: text as in
 * docs/ir.md, settings in its comments. */
#ifndef TESTS_UNIT_SEARCH_CORPUS_H
#define TESTS_UNIT_SEARCH_CORPUS_H

#include "random_graph.h"
#include "subject.h"

struct corpus {
    struct random random; /* for what is drawn after the graph */
    uint32_t microbatches;
    bool profile; /* a noisy one, of that seed */
    struct remat_text
        pins[2]; /* names of values that are saved, recomputed: a blank before and after each */
};

/* Fills in `corpus` and what the subject needs before the graph is prepared. The source is in the
 * subject's arena. */
remat_status corpus_read(struct subject *subject, const char *name, struct corpus *corpus,
                         struct remat_graph **source);

/* A file that corpus_read() makes the same of, but for the device of a profile. */
void corpus_print(const struct subject *subject, const struct corpus *corpus,
                  const struct remat_graph *source);

bool corpus_pins(const struct corpus *corpus, uint8_t action, const char *name);

#endif

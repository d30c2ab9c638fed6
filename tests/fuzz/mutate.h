/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded mutation of files: the same seed gives the same bytes everywhere. */
#ifndef MUTATE_H
#define MUTATE_H

#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state;
};
uint64_t random_u64(struct random *random);
uint64_t random_below(struct random *random, uint64_t limit); /* limit > 0 */

struct bytes {
    unsigned char *data; /* with room for capacity */
    size_t count, capacity;
};

/* One to four of: truncate, flip bits, plant an extreme number, copy, insert or remove a range,
 * splice in a range of `other`. */
void mutate(struct random *random, struct bytes *file, const struct bytes *other);

#endif

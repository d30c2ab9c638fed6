/* SPDX-License-Identifier: Apache-2.0 */
#include "mutate.h"

#include <string.h>

uint64_t random_u64(struct random *random) /* splitmix64 */
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t random_below(struct random *random, uint64_t limit)
{
    return random_u64(random) % limit;
}

static void flip_bits(struct random *random, struct bytes *file)
{
    for (uint64_t k = 1 + random_below(random, 8); k > 0; k--)
        file->data[random_below(random, file->count)] ^=
            (unsigned char)(1 << random_below(random, 8));
}

/* A number that lengths, offsets and indices go wrong at. */
static uint64_t extreme(struct random *random, size_t bytes)
{
    const uint64_t numbers[] = {0,         1,          2,          7,          255,
                                256,       65535,      65536,      bytes,      bytes - 1,
                                bytes / 4, INT32_MAX,  1u << 31,   UINT32_MAX, UINT32_MAX - 3,
                                INT64_MAX, UINT64_MAX, 1ull << 63, 1ull << 32, 0x7ff8000000000000};
    return numbers[random_below(random, sizeof numbers / sizeof *numbers)];
}

static void plant(struct random *random, struct bytes *file)
{
    size_t width = (size_t)1 << random_below(random, 4);
    if (file->count < width)
        return;
    uint64_t number = extreme(random, file->count);
    if (random_below(random, 4) == 0)
        number = random_below(random, 64);
    size_t at = random_below(random, file->count - width + 1) & ~(width - 1);
    memcpy(file->data + at, &number, width);
}

/* Replaces [at, at + removed) by `inserted` bytes of `from`. */
static void replace(struct bytes *file, size_t at, size_t removed, const unsigned char *from,
                    size_t inserted)
{
    if (file->count - removed + inserted > file->capacity)
        return;
    memmove(file->data + at + inserted, file->data + at + removed, file->count - at - removed);
    memcpy(file->data + at, from, inserted);
    file->count = file->count - removed + inserted;
}

static void splice(struct random *random, struct bytes *file, const struct bytes *other)
{
    size_t length = 4 * (1 + random_below(random, 32));
    if (length >= other->count || length >= file->count)
        return;
    size_t from = random_below(random, other->count - length) & ~(size_t)3;
    size_t at = random_below(random, file->count - length) & ~(size_t)3;
    uint64_t kind = random_below(random, 4);
    replace(file, at, kind == 1 ? 0 : length, other->data + from, kind == 2 ? 0 : length);
}

/* Offsets into other tables of the same file: what sharing is made of. */
static void copy_within(struct random *random, struct bytes *file)
{
    size_t length = 4 * (1 + random_below(random, 8));
    if (length >= file->count)
        return;
    size_t from = random_below(random, file->count - length) & ~(size_t)3;
    size_t to = random_below(random, file->count - length) & ~(size_t)3;
    memmove(file->data + to, file->data + from, length);
}

void mutate(struct random *random, struct bytes *file, const struct bytes *other)
{
    uint64_t count = random_below(random, 2) ? 1 : 1 + random_below(random, 4);
    for (uint64_t k = count; k > 0 && file->count; k--) {
        switch (random_below(random, 12)) {
        case 0:
            file->count = random_below(random, file->count);
            break;
        case 1:
            splice(random, file, other);
            break;
        case 2:
        case 3:
            copy_within(random, file);
            break;
        case 4:
        case 5:
            flip_bits(random, file);
            break;
        default:
            plant(random, file);
        }
    }
}

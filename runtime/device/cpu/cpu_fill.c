/* SPDX-License-Identifier: Apache-2.0 */
/* Fills, in items of whole chunks of the index space, computed aside in a buffer of 256 normals so
 * that any first index and length work. */
#include "cpu_fill.h"

#include <assert.h>

#define CHUNK  (16 << 10) /* elements of an item */
#define BUFFER 256

struct fill_run {
    const struct cpu_functions *functions;
    const struct cpu_normal *normal;
    void *out;
    remat_dtype type;
    int64_t count;
    float value;
};

static int64_t items_of(int64_t count)
{
    return (count + CHUNK - 1) / CHUNK;
}

/* The first element, then what is filled so far again and again. */
static void constant_item(void *arg, int64_t item, int worker)
{
    (void)worker;
    const struct fill_run *run = arg;
    int64_t begin = item * CHUNK, bytes = remat_dtype_bytes(run->type);
    int64_t end = remat_min64(run->count - begin, CHUNK) * bytes;
    char *out = cpu_element_at(run->out, run->type, begin);
    if (remat_dtype_is_rounded(run->type))
        run->functions->narrow[run->type](out, &run->value, 1);
    else
        memcpy(out, &run->value, sizeof run->value);
    for (int64_t done = bytes, more; done < end; done += more) {
        more = remat_min64(done, end - done);
        memcpy(out + done, out, (size_t)more);
    }
}

void cpu_fill_constant(struct cpu_pool *pool, const struct cpu_functions *functions, void *out,
                       remat_dtype type, int64_t count, float value)
{
    assert(count >= 0);
    struct fill_run run = {
        .functions = functions, .out = out, .type = type, .count = count, .value = value};
    cpu_pool_run(pool, items_of(count), constant_item, &run);
}

static void normal_item(void *arg, int64_t item, int worker)
{
    (void)worker;
    const struct fill_run *run = arg;
    const struct cpu_normal *normal = run->normal;
    float buffer[BUFFER];
    int64_t end = remat_min64((item + 1) * CHUNK, run->count);
    for (int64_t j = item * CHUNK, taken; j < end; j += taken) {
        uint64_t index = normal->first + (uint64_t)j;
        int64_t skip = (int64_t)(index % 4);
        taken = remat_min64(end - j, BUFFER - skip);
        run->functions->normals(buffer, index / 4, (skip + taken + 3) / 4, normal->site,
                                normal->seed);
        bool rounded = remat_dtype_is_rounded(run->type);
        float *out = rounded ? buffer : (float *)run->out + j;
        for (int64_t i = 0; i < taken; i++)
            out[i] = buffer[skip + i] * normal->stddev + normal->mean;
        if (rounded)
            run->functions->narrow[run->type](cpu_element_at(run->out, run->type, j), out, taken);
    }
}

void cpu_fill_normal(struct cpu_pool *pool, const struct cpu_functions *functions, void *out,
                     remat_dtype type, int64_t count, const struct cpu_normal *normal)
{
    assert(count >= 0);
    struct fill_run run = {
        .functions = functions, .normal = normal, .out = out, .type = type, .count = count};
    cpu_pool_run(pool, items_of(count), normal_item, &run);
}

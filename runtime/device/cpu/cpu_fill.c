/* Fills, in items of whole chunks of the index space, computed aside in a buffer of 256 normals so
 * that any first index and length work. */
#include "cpu_fill.h"

#define CHUNK  (16 << 10) /* elements of an item */
#define BUFFER 256

struct run {
    const struct cpu_functions *functions;
    const struct cpu_normal *normal;
    float *out;
    int64_t count;
    float value;
};

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t items_of(int64_t count)
{
    return (count + CHUNK - 1) / CHUNK;
}

static void constant_item(void *arg, int64_t item, int worker)
{
    (void)worker;
    const struct run *run = arg;
    int64_t end = min64((item + 1) * CHUNK, run->count);
    for (int64_t j = item * CHUNK; j < end; j++)
        run->out[j] = run->value;
}

void cpu_fill_constant(struct cpu_pool *pool, float *out, int64_t count, float value)
{
    struct run run = {.out = out, .count = count, .value = value};
    cpu_pool_run(pool, items_of(count), constant_item, &run);
}

static void normal_item(void *arg, int64_t item, int worker)
{
    (void)worker;
    const struct run *run = arg;
    const struct cpu_normal *normal = run->normal;
    float buffer[BUFFER];
    int64_t end = min64((item + 1) * CHUNK, run->count);
    for (int64_t j = item * CHUNK, taken; j < end; j += taken) {
        uint64_t index = normal->first + (uint64_t)j;
        int64_t skip = (int64_t)(index % 4);
        taken = min64(end - j, BUFFER - skip);
        run->functions->normals(buffer, index / 4, (skip + taken + 3) / 4, normal->site,
                                normal->seed);
        for (int64_t i = 0; i < taken; i++)
            run->out[j + i] = buffer[skip + i] * normal->stddev + normal->mean;
    }
}

void cpu_fill_normal(struct cpu_pool *pool, const struct cpu_functions *functions, float *out,
                     int64_t count, const struct cpu_normal *normal)
{
    struct run run = {.functions = functions, .normal = normal, .out = out, .count = count};
    cpu_pool_run(pool, items_of(count), normal_item, &run);
}

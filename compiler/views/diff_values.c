/* SPDX-License-Identifier: Apache-2.0 */
/* Values that differ, by the layers that they differ in. */
#include "diff.h"

#include <stdlib.h>

static uint32_t action_of(const struct remat_decision_record *record)
{
    return record ? record->action : DUMP_UNDECIDED;
}

static bool is_same(const struct value_pair *value, const char *pattern,
                    const struct decision_pair *pair)
{
    return value->action[0] == action_of(pair->of[0]) &&
           value->action[1] == action_of(pair->of[1]) && strcmp(value->pattern, pattern) == 0;
}

/* Where the layer comes in an ascending list; its length if it is there already. */
static bool has_place(const struct value_pair *value, uint32_t layer, size_t *place)
{
    for (*place = value->layers.count; *place > 0; --*place)
        if (value->layers.items[*place - 1] <= layer)
            return value->layers.items[*place - 1] < layer;
    return value->layers.count > 0;
}

static remat_status add_layer(struct remat_arena *arena, struct value_pair *value, uint32_t layer,
                              size_t place)
{
    remat_status st = REMAT_OK;
    REMAT_TRY_PUSH(arena, &value->layers, 0);
    uint32_t *at = &value->layers.items[place];
    memmove(at + 1, at, (value->layers.count - 1 - place) * sizeof *at);
    *at = layer;
fail:
    return st;
}

static remat_status add_pair(struct remat_arena *arena, const struct decision_pair *pair,
                             struct dump_index *index, struct value_pairs *out)
{
    remat_status st = REMAT_OK;
    const struct remat_decision_record *one = pair->of[0] ? pair->of[0] : pair->of[1];
    const char *pattern;
    size_t place = 0;
    REMAT_TRY(dump_pattern(arena, one->name, one->layer, &pattern));
    uint64_t hash = remat_hash_string(pattern, 0);
    uint32_t v = one->layer < 0 ? REMAT_NONE : dump_index_first(index, hash);
    while (v != REMAT_NONE && !(is_same(&out->items[v], pattern, pair) &&
                                has_place(&out->items[v], (uint32_t)one->layer, &place)))
        v = index->next[v];
    if (v == REMAT_NONE) {
        v = (uint32_t)out->count;
        place = 0;
        dump_index_add(index, hash, v);
        REMAT_TRY_PUSH(
            arena, out,
            ((struct value_pair){.pattern = pattern,
                                 .action = {action_of(pair->of[0]), action_of(pair->of[1])}}));
    }
    struct value_pair *value = &out->items[v];
    if (one->layer >= 0)
        REMAT_TRY(add_layer(arena, value, (uint32_t)one->layer, place));
    value->count++;
    value->bytes += one->bytes;
    for (uint32_t i = 0; i < 2; i++)
        value->recompute_ns[i] += pair->of[i] ? pair->of[i]->recompute_ns : 0;
fail:
    return st;
}

static int compare_runs(const struct value_pair *x, const struct value_pair *y)
{
    for (size_t i = 0; i < x->layers.count && i < y->layers.count; i++)
        if (x->layers.items[i] != y->layers.items[i])
            return x->layers.items[i] < y->layers.items[i] ? -1 : 1;
    if (x->layers.count != y->layers.count)
        return x->layers.count > y->layers.count ? -1 : 1;
    for (uint32_t i = 0; i < 2; i++)
        if (x->action[i] != y->action[i])
            return x->action[i] < y->action[i] ? -1 : 1;
    return 0;
}

static int by_run(const void *a, const void *b)
{
    const struct value_pair *x = a, *y = b;
    int order = compare_runs(x, y);
    return order ? order : strcmp(x->pattern, y->pattern);
}

remat_status dump_diff_values(struct remat_arena *arena, const struct decision_pairs *pairs,
                              struct value_pairs *out)
{
    remat_status st = REMAT_OK;
    struct dump_index index;
    REMAT_TRY(dump_index_new(arena, pairs->count, &index));
    for (size_t i = 0; i < pairs->count; i++)
        REMAT_TRY(add_pair(arena, &pairs->items[i], &index, out));
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, by_run);
fail:
    return st;
}

size_t dump_diff_run(const struct value_pairs *values, size_t begin)
{
    size_t end = begin + 1;
    while (end < values->count && compare_runs(&values->items[begin], &values->items[end]) == 0)
        end++;
    return end;
}

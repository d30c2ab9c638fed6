/* SPDX-License-Identifier: Apache-2.0 */
/* The training step is simulated: a value's slot grows to each position that reads it. */
#include "instances.h"

uint64_t draw(uint64_t *seed, uint64_t bound)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % bound;
}

static remat_status push(struct slots *slots, struct remat_slot slot)
{
    remat_status st = REMAT_OK;
    REMAT_TRY_PUSH(slots->arena, slots, slot);
fail:
    return st;
}

uint32_t add_slot(struct slots *slots, uint32_t begin, uint32_t end, uint64_t bytes)
{
    if (push(slots, (struct remat_slot){begin, end, bytes}) != REMAT_OK)
        slots->failed = true;
    return (uint32_t)slots->count - 1;
}

void random_slots(struct slots *slots, uint64_t *seed, uint32_t count, uint32_t positions,
                  uint64_t units)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t begin = (uint32_t)draw(seed, positions);
        uint32_t end = begin + 1 + (uint32_t)draw(seed, positions - begin);
        add_slot(slots, begin, end, (1 + draw(seed, units)) * REMAT_ALIGNMENT);
    }
}

/* ln1 qkv attention projection residual ln2 fc1 gelu fc2 residual */
enum { OPS = 10, LAYERS_MAX = 4096 };
static const uint32_t out_units[OPS] = {1, 3, 1, 1, 1, 1, 4, 4, 1, 1};
static const uint32_t weight_units[OPS] = {0, 3, 0, 1, 0, 0, 4, 0, 4, 0};

struct step {
    struct slots *slots;
    const struct training *training;
    uint64_t seed;
    uint32_t now;
    uint32_t values[LAYERS_MAX + 1][OPS]; /* slot of each op's output; the input is that of the
                                           * last op of row 0 */
    bool dropped[LAYERS_MAX + 1][OPS];
};

static uint32_t born(struct step *s, uint64_t bytes)
{
    return add_slot(s->slots, s->now, s->now + 1, bytes);
}

static void read_value(struct step *s, uint32_t slot)
{
    if (!s->slots->failed)
        s->slots->items[slot].end = s->now + 1;
}

static uint32_t *input_of(struct step *s, uint32_t layer, uint32_t op)
{
    return op ? &s->values[layer][op - 1] : &s->values[layer - 1][OPS - 1];
}

static uint32_t *skip_of(struct step *s, uint32_t layer, uint32_t op) /* NULL unless residual */
{
    return op == 4 ? input_of(s, layer, 0) : op == 9 ? &s->values[layer][4] : NULL;
}

static void compute(struct step *s, uint32_t layer, uint32_t op)
{
    s->values[layer][op] = born(s, out_units[op] * s->training->unit_bytes);
    read_value(s, *input_of(s, layer, op));
    if (skip_of(s, layer, op))
        read_value(s, *skip_of(s, layer, op));
    s->now++;
}

static void recompute(struct step *s, uint32_t layer, uint32_t op)
{
    if (!s->dropped[layer][op])
        return;
    s->dropped[layer][op] = false;
    if (op > 0)
        recompute(s, layer, op - 1);
    if (op == 9)
        recompute(s, layer, 4);
    compute(s, layer, op);
}

/* The gradient of the op's input, from that of its output. */
static uint32_t differentiate(struct step *s, uint32_t layer, uint32_t op, uint32_t gradient)
{
    const struct training *t = s->training;
    if (skip_of(s, layer, op))
        return gradient; /* passes through; the sum is at the norm */
    if (t->greedy && op > 0)
        recompute(s, layer, op - 1);
    if (t->greedy)
        recompute(s, layer, op);
    uint32_t bytes_units = op ? out_units[op - 1] : 1;
    uint32_t result = born(s, bytes_units * t->unit_bytes);
    read_value(s, *input_of(s, layer, op));
    if (weight_units[op] == 0)
        read_value(s, s->values[layer][op]);
    read_value(s, gradient);
    s->now++;
    if (weight_units[op]) {
        uint32_t weight = born(s, weight_units[op] * t->unit_bytes / 2);
        read_value(s, gradient);
        read_value(s, *input_of(s, layer, op));
        s->now++;
        if (t->keep_gradients && !s->slots->failed)
            s->slots->items[weight].end = UINT32_MAX; /* closed at the end */
        else
            read_value(s, weight);
    }
    return result;
}

static uint32_t backward_half(struct step *s, uint32_t layer, uint32_t first, uint32_t last,
                              uint32_t gradient)
{
    uint32_t inner = gradient;
    for (uint32_t op = last + 1; op-- > first;)
        inner = differentiate(s, layer, op, inner);
    uint32_t sum = born(s, s->training->unit_bytes);
    read_value(s, inner);
    read_value(s, gradient);
    s->now++;
    return sum;
}

static uint32_t head(struct step *s, uint32_t layers)
{
    const struct training *t = s->training;
    uint32_t last = s->values[layers][OPS - 1];
    if (t->logits_bytes) {
        uint32_t logits = born(s, t->logits_bytes);
        read_value(s, last);
        s->now++;
        uint32_t gradient = born(s, t->logits_bytes);
        read_value(s, logits);
        s->now++;
        read_value(s, gradient);
    }
    uint32_t gradient = born(s, t->unit_bytes);
    read_value(s, last);
    s->now++;
    return gradient;
}

void training_slots(struct slots *slots, const struct training *training)
{
    static struct step step; /* tests are single-threaded */
    struct step *s = &step;
    *s = (struct step){.slots = slots, .training = training, .seed = training->seed};
    s->values[0][OPS - 1] = born(s, training->unit_bytes);
    for (uint32_t layer = 1; layer <= training->layers; layer++)
        for (uint32_t op = 0; op < OPS; op++) {
            compute(s, layer, op);
            s->dropped[layer][op] = op < OPS - 1 && draw(&s->seed, 100) < training->drop_percent;
        }
    uint32_t gradient = head(s, training->layers);
    for (uint32_t layer = training->layers; layer > 0; layer--) {
        for (uint32_t op = 0; op < OPS && !training->greedy; op++)
            recompute(s, layer, op);
        gradient = backward_half(s, layer, 5, 9, gradient);
        gradient = backward_half(s, layer, 0, 4, gradient);
    }
    for (size_t i = 0; i < slots->count; i++)
        if (slots->items[i].end == UINT32_MAX)
            slots->items[i].end = s->now;
}

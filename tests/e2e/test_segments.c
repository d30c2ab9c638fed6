/* SPDX-License-Identifier: Apache-2.0 */
/* The segment rule of docs/policies.md on plans: what a unit of layers recomputes it computes from
 * values outside the unit, and these are saved, nothing else, each once. In the encoder-decoder:
 * a recomputed decoder layer saves its input, all of them together the encoder's output. */
#include <stdio.h>

#include "boundary.h"

struct rule {
    const char *name;
    struct remat_policy_settings settings;
    int32_t unit, first, every; /* layers replayed together; the policy takes layers below `first`
                                    whose number from 1 divides by `every` */
};
#define MEGATRON(method, number)                                                                   \
    {                                                                                              \
        .recompute_granularity = "full", .recompute_method = (method),                             \
        .has_recompute_num_layers = true, .recompute_num_layers = (number)                         \
    }
static const struct rule rules[] = {
    {"full", {.ac_mode = "full"}, 1, 99, 1},
    {"uniform 2", MEGATRON("uniform", 2), 2, 99, 1},
    {"uniform 3", MEGATRON("uniform", 3), 3, 99, 1},
    {"block 2", MEGATRON("block", 2), 1, 2, 1},
    {"every 2", {.ac_mode = "selective", .ac_option = "2"}, 1, 99, 2},
};

struct plan {
    const struct rule *rule;
    const struct remat_program *program;
    const char *name;
};

/* "decoder/layers" of "decoder/layers.3/attn". */
static size_t stack_length(const char *scope)
{
    for (const char *dot = scope; (dot = strchr(dot, '.')); dot++)
        if (dot[1] >= '0' && dot[1] <= '9')
            return (size_t)(dot - scope);
    return 0;
}

static bool is_replayed(const struct plan *plan, int32_t layer)
{
    return layer >= 0 && layer < plan->rule->first && (layer + 1) % plan->rule->every == 0;
}

/* Whether two scopes belong to one unit that the policy replays. */
static bool same_unit(const struct plan *plan, const char *a, int32_t a_layer, const char *b,
                      int32_t b_layer)
{
    size_t length = stack_length(a);
    return is_replayed(plan, a_layer) && is_replayed(plan, b_layer) &&
           a_layer / plan->rule->unit == b_layer / plan->rule->unit && length == stack_length(b) &&
           memcmp(a, b, length) == 0;
}

/* A read in the backward pass. Marks what was stored and another unit uses. Which unit a command
 * belongs to is certain of those that begin with a recomputation; others may be fused from the
 * gradients of two layers. */
static void check_read(const struct plan *plan, const struct remat_command *command, uint32_t value,
                       bool *used)
{
    const struct remat_program_value *v = &plan->program->values[value];
    bool same = same_unit(plan, command->scope, command->layer, v->scope, v->layer);
    if (plan->program->buffers[v->buffer].persistent)
        return;
    if (command->instance > 0)
        CHECK(v->instance > 0 ? same : !same || v->phase != REMAT_PHASE_FORWARD,
              "%s: recomputing \"%s\" of layer %d reads \"%s\" of layer %d, %s", plan->name,
              command->name, command->layer, v->name, v->layer,
              v->instance ? "recomputed in another unit" : "saved in the same unit");
    if (v->instance == 0 && v->phase == REMAT_PHASE_FORWARD && !same)
        used[value] = true;
}

/* Returns how many values are stored in the layers that the policy replays. */
static uint32_t check_stored(const struct plan *plan, const uint32_t *holder, const bool *used)
{
    const struct remat_program *program = plan->program;
    uint32_t count = 0;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        if (holder[b] == REMAT_NONE || !is_replayed(plan, program->values[holder[b]].layer))
            continue;
        const char *name = program->values[holder[b]].name;
        count++;
        CHECK(used[holder[b]], "%s: \"%s\" is saved and no other unit reads it", plan->name, name);
        for (uint32_t other = 0; other < b; other++)
            CHECK(holder[other] == REMAT_NONE ||
                      strcmp(program->values[holder[other]].name, name) != 0,
                  "%s: \"%s\" is saved twice", plan->name, name);
    }
    return count;
}

/* All reads of the backward pass: used[value]. */
static uint32_t check_plan(remat_context *ctx, struct remat_arena *arena, const struct plan *plan,
                           bool *used)
{
    const struct remat_program *program = plan->program;
    for (uint32_t c = boundary_find(program); c < boundary_segment(program)->command_end; c++) {
        const struct remat_command *command = &program->commands[c];
        for (uint32_t o = command->operand_begin; o < command->operand_end; o++)
            if (program->operands[o].access == REMAT_ACCESS_READ)
                check_read(plan, command, program->operands[o].value, used);
    }
    return check_stored(plan, boundary_values(ctx, arena, program), used);
}

/* Under full: the saved values that recomputing the decoder's layer reads, its input and the
 * encoder's output. */
static void check_decoder_layer(const struct plan *plan, int32_t layer, int32_t layers)
{
    const struct remat_program *program = plan->program;
    char scope[40], input[48], encoded[48];
    uint32_t inputs = 0, outputs = 0;
    int length = snprintf(scope, sizeof scope, "decoder/layers.%d", (int)layer);
    snprintf(input, sizeof input, layer ? "model.decoder.layers.%d.ln_3" : "decoder.embed",
             (int)layer - 1);
    snprintf(encoded, sizeof encoded, "model.encoder.layers.%d.ln_3", (int)layers - 1);
    for (uint32_t c = boundary_find(program); c < boundary_segment(program)->command_end; c++) {
        const struct remat_command *command = &program->commands[c];
        if (command->instance == 0 || strncmp(command->scope, scope, (size_t)length) != 0)
            continue;
        for (uint32_t o = command->operand_begin; o < command->operand_end; o++) {
            const struct remat_program_value *v = &program->values[program->operands[o].value];
            if (v->instance > 0 || v->phase != REMAT_PHASE_FORWARD ||
                program->buffers[v->buffer].persistent)
                continue;
            inputs += strcmp(v->name, input) == 0;
            outputs += strcmp(v->name, encoded) == 0;
            CHECK(strcmp(v->name, input) == 0 || strcmp(v->name, encoded) == 0,
                  "decoder layer %d: \"%s\" reads \"%s\"", (int)layer, command->name, v->name);
        }
    }
    CHECK(inputs > 0 && outputs > 0, "decoder layer %d: %u reads of \"%s\", %u of \"%s\"",
          (int)layer, inputs, input, outputs, encoded);
}

static void test_model(remat_context *ctx, const char *preset, uint32_t stacks)
{
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
        struct remat_arena arena;
        struct remat_program *program;
        remat_arena_init(&arena, ctx);
        const struct remat_graph *graph =
            harness_model(ctx, &arena, preset,
                          (struct remat_model_settings){
                              .batch = 2, .seq = 20, .source_seq = stacks > 1 ? 28 : 0});
        MUST_OK(ctx, harness_compile(ctx, &arena, graph, NULL, &rules[k].settings, 0, &program));
        struct plan plan = {&rules[k], program,
                            remat_arena_format(&arena, "%s, %s", preset, rules[k].name)};
        bool *used = harness_array(ctx, &arena, program->value_count, sizeof *used);
        uint32_t count = check_plan(ctx, &arena, &plan, used);
        int32_t layers = (int32_t)program->layer_count;
        uint32_t units = 0;
        for (int32_t l = 0; l < layers; l++)
            units += is_replayed(&plan, l) &&
                     (l % rules[k].unit == rules[k].unit - 1 || l == layers - 1);
        CHECK(count == stacks * units, "%s: %u values saved in layers, %u units", plan.name, count,
              stacks * units);
        for (int32_t l = 0; k == 0 && stacks > 1 && l < layers; l++)
            check_decoder_layer(&plan, l, layers);
        printf("%s: %u values saved in layers\n", plan.name, count);
        remat_arena_release(&arena);
    }
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    test_model(ctx, "gpt2-tiny", 1);
    test_model(ctx, "llama-tiny", 1);
    test_model(ctx, "bert-tiny", 1);
    test_model(ctx, "encdec-tiny", 2);
    remat_context_destroy(&ctx);
    return check_exit();
}

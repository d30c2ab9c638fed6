/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts that the graph states: they hold where the rules find others; those that the rules find
 * give the same plan when they are stated; contradictions are refused. */
#include "graph_text.h"
#include "layout.h"
#include "layout_cases.h"
#include "passes.h"
#include "program.h"
#include "unwind.h"

/* Layouts that the graph states, and the rules do not find. */
#define PARAMETER(type) "parameter %p : f32" type " frozen\n"
static const struct layout_case stated_cases[] = {
    {"a parameter stated whole", 64, 'w', false,
     PARAMETER("[8,16] whole(tp)") "%m : f32[4,16] = matmul %sum %p" F},
    {"a parameter by its rows", 64, 'u', false,
     PARAMETER("[8,16] split(tp, 0)") "%m : f32[4,16] = matmul %x %p" F},
    {"a parameter in blocks", 64, 's', false,
     PARAMETER("[8,16] split(tp, 1, 2)") "%m : f32[4,16] = matmul %x %p" F},
    {"a table by its columns", 32, 's', false,
     PARAMETER("[16,8] split(tp, 1)") "%m : f32[4,8] = embedding %p %ids" F},
    {"a view of a parameter", 32, 's', false,
     PARAMETER("[32]") "%v2 : f32[4,8] split(tp, 0) = reshape %p { shape = [4, 8] }" F
                       "%m : f32[4,8] = mul %x %v2" F},
    {"a split that is stated whole", 64, 'w', false, "%m : f32[4,16] whole(tp) = mul %h %b" F},
    {"a split of which a reader states another", 64, 's', false,
     "%y : f32[4,16] whole(tp) = mul %h %b" F "%m : f32[4,16] split(tp, 0) = neg %y" F},
    {"a whole that is stated split", 32, 's', false, "%m : f32[4,8] split(tp, 0) = mul %x %x" F},
    {"a product that is stated split", 16, 's', false,
     "%m : f32[4,4] split(tp, 1) = matmul %x %x { transpose_b = 1 }" F},
    {"a sum that is stated whole", 32, 'w', false, "%m : f32[4,8] whole(tp) = matmul %h %v" F},
    {"a sum that is stated split by columns", 32, 's', false,
     "%m : f32[4,8] split(tp, 1) = matmul %h %v" F},
    {"a sum, stated whole, that another reader has split", 32, 's', false,
     "%y : f32[4,8] whole(tp) = matmul %h %v" F
     "%s : f32[4,8] = slice %h { axis = 1, begin = 8, end = 16 }" F "%m : f32[4,8] = add %y %s" F},
    {"heads", 32, 's', true,
     "%q : f32[1,4,4,2] split(tp, 2) = reshape %x { shape = [1, 4, 4, 2] }" F
     "%m : f32[1,4,4,2], %l : f32[1,4,4] = attention %q %q %q { scale = 0.01, causal = 1 }" F},
    {"an input by its rows", 32, 's', false, " split(tp, 0)\n%m : f32[4,8] = neg %x" F},
    {"an input by its columns", 32, 's', false, " split(tp, 1)\n%m : f32[4,8] = neg %x" F},
    {"an input that is stated whole", 32, 'w', false, " whole(tp)\n%m : f32[4,8] = add %x %sum" F},
};

/* With sequence parallelism. */
static const struct layout_case stated_token_cases[] = {
    {"tokens, stated whole", 32, 'w', false, "%m : f32[4,8] whole(tp) = mul %sum %sum" F},
    {"tokens, stated by columns", 32, 's', false, "%m : f32[4,8] split(tp, 1) = mul %sum %sum" F},
    {"a sum, stated by columns", 32, 's', false,
     "%y : f32[4,8] split(tp, 1) = matmul %h %v" F "%m : f32[4,8] = neg %y" F},
    {"rows of a view of a parameter", 32, 's', false,
     PARAMETER("[32]") "%v2 : f32[4,8] split(tp, 0) = reshape %p { shape = [4, 8] }" F
                       "%m : f32[4,8] = add %sum %v2" F},
    {"tokens of what is whole", 32, 't', false,
     "%y : f32[4,8] split(tp, 0) = mul %x %x" F "%m : f32[4,8] = add %sum %y" F},
};

struct work { /* on a graph, under remat_guard */
    remat_context *ctx;
    struct remat_graph *graph;
    bool trains;
    struct remat_pass_settings passes;
    struct remat_arena *arena; /* of the graph */
};

/* States of each value what was found of it, where that is not a sum. */
static remat_status state_found(void *user)
{
    static const struct remat_stated whole = {"tp", 0, 0};
    const struct work *s = user;
    struct remat_arena *arena = remat_scratch_open(s->ctx);
    struct remat_graph *graph;
    struct remat_layouts layouts;
    struct remat_place place;
    graph = s->graph;
    if (s->trains)
        REMAT_CHECK(remat_pass_autodiff(arena, graph, &s->passes, &graph));
    REMAT_CHECK(remat_pass_expand(arena, graph, &s->passes, &graph));
    REMAT_CHECK(remat_pass_eliminate_dead(arena, graph, &s->passes, &graph));
    REMAT_CHECK(remat_layouts_find(arena, graph, "tp", s->passes.sequence_parallel, &layouts));
    for (uint32_t v = 0; v < graph->value_count; v++)
        for (uint32_t u = 0; u < s->graph->value_count; u++) {
            struct remat_value_info *info = &s->graph->values[u];
            bool splits = remat_layout_place(&info->shape, layouts.of[v],
                                             remat_mesh_size(&graph->mesh, "tp"), &place);
            if (strcmp(graph->values[v].name, info->name) != 0)
                continue;
            if (splits && !place.joint)
                info->stated =
                    remat_copy(s->arena, &(struct remat_stated){"tp", place.blocks, place.axis}, 1,
                               sizeof *info->stated);
            else if (layouts.of[v].kind == REMAT_LAYOUT_WHOLE)
                info->stated = &whole;
        }
    remat_scratch_close(arena);
    return REMAT_OK;
}

/* A graph that states what is found gives the same plan, to the byte. */
static void check_found(remat_context *ctx, struct remat_arena *arena, const char *name,
                        struct remat_graph *graph, bool trains, bool sequence)
{
    const struct remat_policy_settings none = {0};
    const struct remat_pass_settings passes = {.sequence_parallel = sequence};
    const void *data[2];
    size_t bytes[2];
    for (uint32_t k = 0; k < 2; k++) {
        struct remat_program *program;
        if (k == 1)
            MUST_OK(ctx, remat_guard(ctx, state_found,
                                     &(struct work){ctx, graph, trains, passes, arena}));
        MUST_OK(ctx, harness_compile(ctx, arena, graph, &passes, &none, 0, &program));
        MUST_OK(ctx, remat_program_write(ctx, program, arena, &data[k], &bytes[k]));
    }
    CHECK(bytes[0] == bytes[1] && memcmp(data[0], data[1], bytes[0]) == 0,
          "%s: another plan where the layouts that were found are stated", name);
}

static void test_found(remat_context *ctx, const struct layout_case *c, bool sequence)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    check_found(ctx, &arena, c->name, layout_parse(ctx, &arena, c, 2), false, sequence);
    remat_arena_release(&arena);
}

static void test_found_model(remat_context *ctx, const char *preset, bool written_out,
                             bool sequence)
{
    const struct remat_model_settings sizes = {.layers = 2,
                                               .width = 48,
                                               .heads = 4,
                                               .hidden = 40,
                                               .vocab = 260,
                                               .seq = 8,
                                               .batch = 2,
                                               .dropout = 0.1,
                                               .dtype = written_out ? REMAT_BF16 : REMAT_F32,
                                               .written_out = written_out};
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = harness_model(ctx, &arena, preset, sizes);
    graph->mesh = (struct remat_mesh){1, {{"tp", 2}}};
    check_found(ctx, &arena, preset, graph, true, sequence);
    remat_arena_release(&arena);
}

#define REFUSED                                                                                    \
    "graph \"refused\"\ninput %x : f32[4,6]\nparameter %w : f32[6,12] split(tp, 1) frozen\n"
#define H "%h : f32[4,12] = matmul %x %w" F

#define CONTRADICTS(value, stated, by, needed)                                                     \
    "value \"" value "\": along tp it is stated as " stated ", but value \"" by                    \
    "\" needs it " needed

static const struct refusal {
    const char *text, *message;
} refusals[] = {
    /* contradictions: a node, a parameter, an input, a view, a gradient */
    {REFUSED H "%y : f32[4,12] split(tp, 0) = neg %h" F "output %y\n",
     CONTRADICTS("y", "split in dimension 0", "h", "split in dimension 1")},
    {REFUSED H "parameter %p : f32[4,12] split(tp, 0) frozen\n%y : f32[4,12] = add %h %p" F
               "output %y\n",
     CONTRADICTS("p", "split in dimension 0", "h", "split in dimension 1")},
    {REFUSED H "input %i : f32[4,12] split(tp, 1, 3)\n%y : f32[4,12] = add %h %i" F "output %y\n",
     CONTRADICTS("i", "split in dimension 1, in 3 blocks", "h", "split in dimension 1")},
    {REFUSED "%t : f32[12,6] split(tp, 0) = reshape %w { shape = [12, 6] }" F
             "%y : f32[4,12] = matmul %x %t { transpose_b = 1 }" F "output %y\n",
     CONTRADICTS("t", "split in dimension 0", "w", "split in dimension 0, in 6 blocks")},
    {REFUSED H "%w.grad : f32[6,12] whole(tp) gradient = matmul %x %h { transpose_a = 1 }" F
               "output %h\n",
     CONTRADICTS("w.grad", "whole", "w", "split in dimension 1")},
    /* what cannot be divided */
    {REFUSED H "%y : f32[4,12] split(tp, 1, 4) = neg %h" F "output %y\n",
     "value \"y\": dimension 1, of 12 in blocks of 3, is not divisible by 2 ranks along tp"},
    {REFUSED H "%y : f32[4,12] split(tp, 1, 5) = neg %h" F "output %y\n",
     "value \"y\": dimension 1, of 12, has no 5 equal blocks"},
    {REFUSED H "output %w\noutput %h\n",
     "value \"w\": it is stated as split along tp, but is also an output of the graph"},
};

static remat_status divide(void *user)
{
    const struct work *s = user;
    struct remat_arena *arena = remat_scratch_open(s->ctx);
    struct remat_graph *graph;
    REMAT_CHECK(remat_pass_expand(arena, s->graph, &s->passes, &graph));
    REMAT_CHECK(remat_pass_eliminate_dead(arena, graph, &s->passes, &graph));
    REMAT_CHECK(remat_pass_tensor_parallel(arena, graph, &s->passes, &graph));
    remat_scratch_close(arena);
    return REMAT_OK;
}

static void test_refusals(remat_context *ctx)
{
    for (size_t k = 0; k < COUNT(refusals); k++) {
        const struct refusal *r = &refusals[k];
        struct remat_arena arena;
        struct work work = {.ctx = ctx};
        remat_arena_init(&arena, ctx);
        MUST_OK(ctx, remat_graph_parse(ctx, "t", r->text, strlen(r->text), &arena, &work.graph));
        CHECK_OK(ctx, remat_guard(ctx, divide, &work)); /* without a mesh */
        work.graph->mesh = (struct remat_mesh){1, {{"tp", 2}}};
        CHECK(remat_guard(ctx, divide, &work) == REMAT_ERROR_INVALID &&
                  strcmp(remat_context_message(ctx), r->message) == 0,
              "%zu: %s", k, remat_context_message(ctx));
        remat_arena_release(&arena);
    }
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    layouts_check_all(ctx, stated_cases, COUNT(stated_cases), false);
    layouts_check_all(ctx, stated_token_cases, COUNT(stated_token_cases), true);
    for (size_t k = 0; k < layout_case_count; k++)
        test_found(ctx, &layout_cases[k], false);
    for (size_t k = 0; k < layout_token_case_count; k++)
        test_found(ctx, &layout_token_cases[k], true);
    for (uint32_t k = 0; k < 4; k++)
        test_found_model(ctx, k < 2 ? "gpt2-tiny" : "encdec-tiny", k % 2, k == 1 || k == 2);
    test_refusals(ctx);
    remat_context_destroy(&ctx);
    return check_exit();
}

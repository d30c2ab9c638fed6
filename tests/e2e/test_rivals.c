/* SPDX-License-Identifier: Apache-2.0 */
/* Plans decided value by value against manual policies as users write them: lists of ops to save,
 * of modules, and globs of what to recompute, drawn at random and compiled by their own settings.
 * In the bytes that one needs the plan takes no longer, and no bound is above what it takes. Globs
 * are pins, which are not among what the planner compares. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "ops.h"
#include "philox.h"

enum { WORDS_MAX = 256, PICKS_MAX = 6, RIVALS = 8 };

struct drawn {
    remat_context *ctx;
    struct remat_arena *arena;
    uint32_t seed, draws;
    char name[160]; /* remat-graph's and remat-compile's options */
    const struct remat_graph *graph;
    struct remat_compile_settings settings;
    struct words {
        const char *items[WORDS_MAX];
        uint32_t count;
    } ops, globs;
};

static uint32_t draw(struct drawn *d, uint32_t below)
{
    uint32_t bits[4];
    philox((const uint32_t[4]){d->draws++}, (const uint32_t[2]){d->seed}, bits);
    return bits[0] % below;
}

/* --- models --- */

static void draw_model(struct drawn *d)
{
    static const struct {
        const char *preset;
        int batch, seq;
    } models[] = {{"bert-large", 16, 512}, {"gpt2-124m", 8, 1024}, {"llama3.2-1b", 4, 2048},
                  {"gpt2-tiny", 8, 128},   {"bert-tiny", 8, 128},  {"llama-tiny", 8, 128},
                  {"encdec-tiny", 8, 128}};
    static const char *const targets[] = {"h100-sxm", "a100-80", "b200"};
    uint32_t m = d->seed % (sizeof models / sizeof *models);
    const char *target = targets[draw(d, sizeof targets / sizeof *targets)];
    struct remat_model_settings s = {
        .batch = models[m].batch, .seq = models[m].seq, .dtype = REMAT_BF16};
    s.dropout = draw(d, 2) ? 0.1 : 0;
    s.written_out = draw(d, 2);
    if (strncmp(models[m].preset, "llama", 5) == 0)
        s.dropout = 0;
    d->graph = harness_model(d->ctx, d->arena, models[m].preset, s);
    MUST_OK(d->ctx,
            remat_device_description_read(d->ctx, d->arena, target, 0, &d->settings.device));
    snprintf(d->name, sizeof d->name,
             "%s --batch %d --seq %d --dtype bf16 --dropout %g --attention %s; --target %s",
             models[m].preset, models[m].batch, models[m].seq, s.dropout,
             s.written_out ? "written-out" : "fused", target);
}

static void add_word(struct words *words, const char *word)
{
    for (uint32_t w = 0; w < words->count; w++)
        if (strcmp(words->items[w], word) == 0)
            return;
    if (words->count < WORDS_MAX)
        words->items[words->count++] = word;
}

/* "h.3/attn/core" as "h.*" with what follows; NULL: `text` names no layer. */
static const char *every_layer(struct drawn *d, const char *text)
{
    for (const char *dot = strchr(text, '.'); dot; dot = strchr(dot + 1, '.')) {
        size_t digits = strspn(dot + 1, "0123456789");
        char end = dot[1 + digits];
        if (digits > 0 && (end == '.' || end == '/')) {
            const char *glob = remat_arena_format(d->arena, "%.*s*%s", (int)(dot + 1 - text), text,
                                                  dot + 1 + digits);
            CHECK(glob, "out of memory");
            return glob;
        }
    }
    return NULL;
}

static void list_words(struct drawn *d)
{
    for (uint32_t n = 0; n < d->graph->node_count; n++) {
        const struct remat_node_info *node = &d->graph->nodes[n];
        const char *scope = d->graph->scopes[node->scope.i].path;
        const char *globs[] = {every_layer(d, scope),
                               every_layer(d, d->graph->values[node->outputs[0].i].name)};
        if (globs[0])
            add_word(&d->ops, remat_op_info(node->op)->name);
        for (int g = 0; g < 2; g++)
            if (globs[g])
                add_word(&d->globs, globs[g]);
    }
}

/* --- rivals --- */

/* Some of the words, as one list or one by one. */
static uint32_t pick(struct drawn *d, const struct words *words, uint32_t most,
                     const char *picked[PICKS_MAX], struct remat_text *list)
{
    struct words left = *words;
    uint32_t count = 1 + draw(d, most < left.count ? most : left.count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t w = draw(d, left.count);
        if (picked)
            picked[i] = left.items[w];
        remat_text_append(list, "%s%s", i ? picked ? " --recompute " : "," : "", left.items[w]);
        left.items[w] = left.items[--left.count];
    }
    return count;
}

/* Its settings, and as options in `text`. */
static struct remat_policy_settings draw_rival(struct drawn *d, const char *globs[PICKS_MAX],
                                               char *text, size_t size)
{
    static const struct words modules = {{"core_attn", "mlp", "layernorm"}, 3};
    struct remat_policy_settings policy = {0};
    struct remat_text list = {.arena = d->arena};
    switch (draw(d, 4)) {
    case 0:
        policy.recompute_count = pick(d, &d->globs, PICKS_MAX, globs, &list);
        policy.recompute = globs;
        snprintf(text, size, "--recompute %s", list.items);
        break;
    case 1:
        pick(d, &modules, modules.count, NULL, &list);
        policy.recompute_granularity = "selective";
        policy.recompute_modules = list.items;
        snprintf(text, size, "--recompute-granularity selective --recompute-modules %s",
                 list.items);
        break;
    default:
        pick(d, &d->ops, d->ops.count, NULL, &list);
        policy.ac_mode = "selective";
        policy.ac_option = "op";
        policy.save_ops = list.items;
        snprintf(text, size, "--ac-mode selective --ac-option op --save-ops %s", list.items);
    }
    return policy;
}

struct outcome {
    uint64_t step_ns, bound_ns, bytes; /* the bytes that the plan needs */
};

/* REMAT_ERROR_USAGE, REMAT_ERROR_INFEASIBLE. */
static remat_status compile(struct drawn *d, const struct remat_policy_settings *policy,
                            uint64_t budget_bytes, struct outcome *out)
{
    struct remat_arena scratch;
    struct remat_program *program;
    struct remat_compile_settings settings = d->settings;
    settings.search.policy = *policy;
    settings.search.has_budget = budget_bytes > 0;
    settings.search.budget_bytes = budget_bytes;
    remat_arena_init(&scratch, d->ctx);
    remat_status st = remat_compile(d->ctx, &scratch, d->graph, &settings, &program);
    if (st == REMAT_OK)
        *out = (struct outcome){program->step_ns, program->bound_step_ns,
                                program->reserve_bytes + program->arena_bytes};
    remat_arena_release(&scratch);
    return st;
}

static void check_rival(struct drawn *d, uint32_t *rivals)
{
    const char *globs[PICKS_MAX];
    char text[600];
    struct outcome rival, plan;
    struct remat_policy_settings policy = draw_rival(d, globs, text, sizeof text);
    remat_status st = compile(d, &policy, 0, &rival);
    if (st == REMAT_ERROR_USAGE) /* such as a glob of what is never recomputed */
        return;
    MUST_OK(d->ctx, st);
    (*rivals)++;
    st = compile(d, &(struct remat_policy_settings){0}, rival.bytes, &plan);
    if (!CHECK_OK(d->ctx, st, "%s %s fits %" PRIu64 " B", d->name, text, rival.bytes))
        return;
    CHECK(plan.bound_ns <= rival.step_ns, "%s %s takes %" PRIu64 " ns, less than %" PRIu64, d->name,
          text, rival.step_ns, plan.bound_ns);
    CHECK(plan.step_ns <= rival.step_ns,
          "%s %s takes %" PRIu64 " ns, --budget %" PRIu64 " %" PRIu64 " ns", d->name, text,
          rival.step_ns, rival.bytes, plan.step_ns);
}

/* Arguments: the first seed and the number of cases. */
int main(int argc, char **argv)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    uint32_t first = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;
    uint32_t cases = argc > 2 ? (uint32_t)atoi(argv[2]) : 14;
    uint32_t rivals = 0;
    for (uint32_t seed = first; seed < first + cases; seed++) {
        struct remat_arena arena;
        struct drawn d = {.ctx = ctx, .arena = &arena, .seed = seed};
        remat_arena_init(&arena, ctx);
        draw_model(&d);
        list_words(&d);
        for (uint32_t i = 0; i < RIVALS; i++)
            check_rival(&d, &rivals);
        remat_arena_release(&arena);
    }
    if (argc < 2)
        check_figure(rivals, "rivals that fit");
    printf("%u rivals\n", rivals);
    remat_context_destroy(&ctx);
    return check_exit();
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include "borrowed_plan.h"
#include "plans.h"

#include <pthread.h>
#include <stdlib.h>

/* --- models --- */

struct remat_graph *ranks_graph(remat_context *ctx, struct remat_arena *arena,
                                const struct ranks_model *model, uint32_t ranks,
                                uint32_t microbatches, uint32_t batch, bool forward_only)
{
    bool grouped = strcmp(model->preset, "llama-tiny") == 0 && model->tp <= 1;
    struct remat_model_settings sizes = {.layers = 2,
                                         .width = 12,
                                         .heads = 2,
                                         .kv_heads = grouped ? 1 : 0,
                                         .vocab = 259,
                                         .vocab_multiple = model->vocab_multiple,
                                         .seq = 8,
                                         .batch = batch / (ranks * microbatches),
                                         .dropout = 0.1,
                                         .dtype = model->dtype,
                                         .forward_only = forward_only,
                                         .optimizer = {.clip_norm = model->clip_norm,
                                                       .no_master = model->narrow,
                                                       .bf16_moments = model->narrow},
                                         .lora = {.rank = model->lora}};
    if (strcmp(model->preset, "llama-tiny") == 0)
        sizes.dropout = 0;
    struct remat_graph *graph = harness_model(ctx, arena, model->preset, sizes);
    if (model->tp > 1)
        graph->mesh = (struct remat_mesh){2, {{"dp", ranks}, {"tp", model->tp}}};
    else if (ranks > 1)
        graph->mesh = (struct remat_mesh){1, {{"dp", ranks}}};
    return graph;
}

struct remat_pass_settings ranks_passes(const struct ranks_model *model, uint32_t ranks,
                                        uint32_t microbatches)
{
    return (struct remat_pass_settings){.microbatches = microbatches,
                                        .zero = ranks > 1 ? model->zero : 0,
                                        .sequence_parallel = model->sequence_parallel,
                                        .exchange_bytes = ranks > 1 ? model->exchange_bytes : 0};
}

struct remat_program *ranks_compile(remat_context *ctx, struct remat_arena *arena,
                                    const struct ranks_model *model, uint32_t ranks,
                                    uint32_t microbatches, uint32_t batch)
{
    const struct remat_policy_settings none = {0};
    struct remat_program *program;
    struct remat_graph *graph = ranks_graph(ctx, arena, model, ranks, microbatches, batch, false);
    const struct remat_pass_settings passes = ranks_passes(model, ranks, microbatches);
    MUST_OK(ctx, harness_compile(ctx, arena, graph, &passes, &none, 0, &program));
    return program;
}

void ranks_describe(char out[80], const struct ranks_model *model, uint32_t ranks)
{
    snprintf(out, 80, "%s %s dp=%u", model->preset, remat_dtype_name(model->dtype), ranks);
    if (model->tp > 1)
        snprintf(out + strlen(out), 80 - strlen(out), ",tp=%u%s", model->tp,
                 model->sequence_parallel ? " sequence parallel" : "");
}

/* --- ranks --- */

enum { LINKS = REMAT_MESH_AXES_MAX };

/* What each transfer of a step waits for: commands that compute, of those that the step traced. */
struct lateness {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t computed;
    bool on;
    struct {
        uint32_t needs[4096], count, transferred;
    } links[LINKS]; /* each has a thread */
};

struct rank {
    pthread_t thread;
    uint32_t number;
    struct remat_plan plan;
    const struct ranks_settings *settings;
    struct sleep_ranks *sleep; /* NULL: they do not */
    struct ranks_result *result;
    remat_engine engine, inner; /* inner: the one that is tapped */
    remat_engine joiner;        /* for what sessions do not transfer, while they do */
    struct lateness late;
    bool has_engine, first_step;
    uint32_t commands;
    uint64_t joined; /* tensors, of their parts */
    struct {
        const char *name;
        uint64_t hash;
    } gradients[256]; /* the last version of each */
    uint32_t gradient_count;
};

/* --- as late as possible --- */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Of one run of a segment, whose first command finds `computed` ones before it. A transfer goes on
 * until the next one on its link is needed, as they come in order, or one that waits for it. */
static void list_needs(struct lateness *late, const struct remat_program *p,
                       const struct remat_segment *segment, uint32_t *computed)
{
    uint32_t begin = segment->command_begin, count = segment->command_end - begin;
    uint32_t *before = calloc(count + 1u, sizeof *before),
             *needs = calloc(count + 1u, sizeof *needs);
    uint32_t next[LINKS] = {UINT32_MAX, UINT32_MAX};
    MUST(before && needs);
    memset(needs, 0xff, count * sizeof *needs);
    for (uint32_t c = 0; c < count; c++)
        before[c + 1] = before[c] + (p->commands[begin + c].complete_before == 0);
    for (uint32_t c = count; c-- > 0;) {
        const struct remat_command *command = &p->commands[begin + c];
        if (!command->complete_before)
            continue;
        uint32_t *of_link = &next[remat_command_link(p, begin + c)];
        needs[c] = least(needs[c], *computed + before[command->complete_before - begin]);
        needs[c] = *of_link = least(needs[c], *of_link);
        if (command->waits_for)
            needs[command->waits_for - 1 - begin] =
                least(needs[command->waits_for - 1 - begin], needs[c]);
    }
    for (uint32_t c = 0; c < count; c++)
        if (p->commands[begin + c].complete_before) {
            uint32_t link = remat_command_link(p, begin + c), at = late->links[link].count++;
            MUST(at < sizeof late->links[link].needs / sizeof *late->links[link].needs);
            late->links[link].needs[at] = needs[c];
        }
    *computed += before[count];
    free(before);
    free(needs);
}

static void prepare_late(struct rank *rank)
{
    const struct remat_program *p = rank->plan.program;
    uint32_t computed = 0, e = 0;
    pthread_mutex_init(&rank->late.mutex, NULL);
    pthread_cond_init(&rank->late.changed, NULL);
    while (e < p->entry_count && strcmp(p->entries[e].name, "train") != 0)
        e++;
    if (e == p->entry_count)
        return;
    for (uint32_t k = p->entries[e].call_begin; k < p->entries[e].call_end; k++)
        for (uint32_t t = 0; t < p->calls[k].times; t++)
            list_needs(&rank->late, p, &p->segments[p->calls[k].segment], &computed);
}

static void release_late(struct rank *rank)
{
    pthread_cond_destroy(&rank->late.changed);
    pthread_mutex_destroy(&rank->late.mutex);
}

static void count_computed(struct rank *rank)
{
    pthread_mutex_lock(&rank->late.mutex);
    rank->late.computed++;
    pthread_cond_broadcast(&rank->late.changed);
    pthread_mutex_unlock(&rank->late.mutex);
}

static void set_late(struct rank *rank, bool on)
{
    rank->late.on = on && rank->settings->late;
    rank->late.computed = 0;
    for (uint32_t l = 0; l < LINKS; l++)
        rank->late.links[l].transferred = 0;
}

static void wait_until_late(struct rank *rank, const remat_transfer *t, uint32_t count,
                            bool exchange)
{
    struct lateness *late = &rank->late;
    uint32_t *at = &late->links[t->group].transferred;
    MUST(*at + count <= late->links[t->group].count);
    uint32_t need = late->links[t->group].needs[*at];
    *at += count;
    for (uint32_t k = 0; k < count; k++)
        memset(t[k].to, 0xa5, exchange ? t[k].size * t[k].part_bytes : t[k].whole_bytes);
    pthread_mutex_lock(&late->mutex);
    rank->result->late_count += count;
    while (late->computed < need)
        pthread_cond_wait(&late->changed, &late->mutex);
    pthread_mutex_unlock(&late->mutex);
}

/* --- the tap --- */

static uint64_t part_bytes(const remat_transfer *t)
{
    uint64_t begin = t->position * t->part_bytes, end = begin + t->part_bytes;
    end = end < t->whole_bytes ? end : t->whole_bytes;
    return end > begin ? end - begin : 0;
}

static remat_status tapped(struct rank *rank, const remat_transfer *t, uint32_t count,
                           bool exchange, char *message)
{
    if (rank->late.on)
        wait_until_late(rank, t, count, exchange);
    remat_status st =
        (exchange ? rank->inner.exchange : rank->inner.gather)(rank->inner.user, t, count, message);
    const struct ranks_tap *tap = rank->settings->tap;
    pthread_mutex_lock(&rank->late.mutex); /* links have a thread each */
    rank->result->grouped_count += count - 1;
    for (uint32_t k = 0; k < count && rank->first_step; k++)
        rank->result->sent_bytes +=
            exchange ? t[k].whole_bytes - part_bytes(&t[k]) : (t[k].size - 1) * part_bytes(&t[k]);
    pthread_mutex_unlock(&rank->late.mutex);
    for (uint32_t k = 0; k < count && st == REMAT_OK && tap; k++)
        tap->after(tap->user, &t[k], exchange, rank->number);
    return st;
}

static remat_status tapped_exchange(void *user, const remat_transfer *t, uint32_t count,
                                    char *message)
{
    return tapped(user, t, count, true, message);
}

static remat_status tapped_gather(void *user, const remat_transfer *t, uint32_t count,
                                  char *message)
{
    return tapped(user, t, count, false, message);
}

static void tapped_fail(void *user, remat_status status, const char *message)
{
    struct rank *rank = user;
    rank->inner.fail(rank->inner.user, status, message);
}

/* Whether transfers do while parts are joined. */
static bool goes_on(const struct rank *rank)
{
    return rank->settings->late || rank->sleep;
}

static void set_engine(struct rank *rank, remat_local_ranks *local, remat_local_ranks *beside)
{
    remat_local_engine(local, rank->number, &rank->inner);
    remat_local_engine(goes_on(rank) ? beside : local, rank->number, &rank->joiner);
    remat_engine engine = rank->inner;
    engine.user = rank;
    engine.exchange = tapped_exchange;
    engine.gather = tapped_gather;
    engine.fail = tapped_fail;
    rank->engine = engine;
    if (rank->sleep)
        sleep_engine(rank->sleep, rank->number, &engine, &rank->engine);
    rank->has_engine = true;
}

/* --- what is recorded --- */

/* Element by element, from the parts of all ranks one after the other: which rank has it, and where
 * among its own. */
static void place_parts(remat_parts parts, uint64_t size, const char *all, uint64_t bytes,
                        char *whole)
{
    for (uint64_t i = 0; i < parts.count * (bytes / size); i++) {
        uint64_t rank = 0, at = i;
        for (int k = 0; k < 2; k++) {
            const remat_division *d = &parts.divisions[k];
            rank += at / d->run % d->count * d->rank_stride;
            at = at / d->run / d->count * d->run + at % d->run;
        }
        memcpy(whole + i * size, all + rank * bytes + at * size, size);
    }
}

/* Of what every rank has a part, the whole, to be freed. All ranks ask for the same ones. */
static char *join(struct rank *rank, const char *name, const void *data, uint64_t bytes,
                  remat_element element, remat_parts parts)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    uint32_t ranks = parts.count > 1 ? rank->engine.ranks : 1;
    char *whole = malloc(parts.count * bytes), *all = malloc(ranks * bytes);
    MUST(whole && all);
    const remat_transfer transfer = {.struct_size = sizeof transfer,
                                     .name = name,
                                     .sequence = rank->joined,
                                     .size = ranks,
                                     .position = rank->number,
                                     .part_bytes = bytes,
                                     .whole_bytes = ranks * bytes,
                                     .from = data,
                                     .to = all,
                                     .timeout_ns = UINT64_C(60000000000)};
    if (parts.count == 1) {
        memcpy(whole, data, bytes);
    } else {
        rank->joined++;
        MUST(rank->joiner.gather(rank->joiner.user, &transfer, 1, message) == REMAT_OK, "%s: %s",
             name, message);
        place_parts(parts, element == REMAT_ELEMENT_BF16 ? 2 : 4, all, bytes, whole);
    }
    free(all);
    return whole;
}

static void keep_gradient(struct rank *rank, const remat_trace_value *v)
{
    uint64_t bytes = v->parts.count * v->bytes;
    char *whole = join(rank, v->name, v->data, v->bytes, v->element, v->parts);
    uint64_t hash = remat_hash(whole, bytes, remat_hash_string(v->name, 0));
    if (rank->settings->keep && rank->number == 0)
        rank->settings->keep(rank->settings->keep_user, v->name, v->element, whole, bytes);
    free(whole);
    uint32_t k = 0;
    while (k < rank->gradient_count && strcmp(rank->gradients[k].name, v->name) != 0)
        k++;
    MUST(k < 256);
    rank->gradients[k].name = v->name;
    rank->gradients[k].hash = hash;
    rank->gradient_count += k == rank->gradient_count;
}

static int record(void *user, const remat_trace_event *event)
{
    struct rank *rank = user;
    if (rank->late.on && event->stream == REMAT_STREAM_COMPUTATION)
        count_computed(rank);
    for (uint32_t i = 0; i < event->value_count; i++) {
        const remat_trace_value *v = &event->values[i];
        if (v->role == REMAT_TENSOR_GRADIENT)
            keep_gradient(rank, v);
        if (rank->first_step && strncmp(v->name, "clip.minimum", strlen("clip.minimum")) == 0)
            memcpy(&rank->result->factor, v->data, sizeof(float));
    }
    uint32_t limit = rank->number == 1 ? rank->settings->stopped_after : 0;
    return limit && ++rank->commands > limit;
}

static uint64_t hash_gradients(const struct rank *rank)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < rank->gradient_count; k++)
        sum += rank->gradients[k].hash;
    return sum;
}

/* Parameters, and states that a plan of one rank has too. */
static bool is_compared(const remat_tensor_info *t)
{
    return t->role == REMAT_TENSOR_PARAMETER || t->role == REMAT_TENSOR_OPTIMIZER_STATE;
}

static uint64_t hash_states(remat_context *ctx, struct rank *rank, remat_session *session)
{
    uint64_t sum = 0;
    remat_tensor_info t = {.struct_size = sizeof t};
    for (uint32_t i = 0; remat_plan_get_tensor(&rank->plan, i, &t); i++) {
        if (!is_compared(&t))
            continue;
        char *data = malloc(t.bytes);
        MUST(data);
        MUST_OK(ctx, remat_session_read(session, t.name, data, t.bytes));
        char *whole = join(rank, t.name, data, t.bytes, t.element, t.parts);
        sum += remat_hash(whole, t.parts.count * t.bytes, remat_hash_string(t.name, 0));
        free(whole);
        free(data);
    }
    return sum;
}

/* --- a rank --- */

static void begin_sleep(const struct rank *rank, const struct sleep_settings *settings)
{
    if (rank->sleep)
        sleep_begin(rank->sleep, rank->number, settings);
}

static remat_status step(remat_context *ctx, struct rank *rank, remat_session *session, uint32_t n)
{
    remat_status st = REMAT_OK;
    struct ranks_result *result = rank->result;
    rank->first_step = n == 0;
    harness_write_inputs(ctx, session, &rank->plan, n, 1e-3f);
    set_late(rank, true);
    begin_sleep(rank, rank->settings->sleep);
    REMAT_TRY(remat_session_run(session, "train"));
    set_late(rank, false);
    MUST_OK(ctx, remat_session_read(session, "loss", &result->loss[n], sizeof(float)));
    MUST_OK(ctx, remat_session_read(session, "not_finite", &result->not_finite, sizeof(int32_t)));
    result->gradients[n] = hash_gradients(rank);
    result->gradient_count = rank->gradient_count;
    rank->first_step = false;
fail:
    return st;
}

static remat_status steps(remat_context *ctx, struct rank *rank, remat_session *session)
{
    remat_status st = REMAT_OK;
    const struct ranks_settings *settings = rank->settings;
    const struct sleep_settings at_once = {.timeout_ns = UINT64_C(60000000000)};
    begin_sleep(rank, &at_once);
    REMAT_TRY(remat_session_run(session, "init"));
    if (settings->shift) {
        int32_t wrong = (int32_t)((rank->number + settings->shift) % rank->engine.ranks);
        MUST_OK(ctx, remat_session_write(session, "mesh.dp", &wrong, sizeof wrong));
    }
    if (settings->paint)
        remat_session_paint(session, rank->plan.program->static_bytes);
    if (settings->guard)
        MUST_OK(ctx, remat_session_guard(session));
    remat_session_poison(session, settings->guard || settings->late);
    if (goes_on(rank)) /* it would have transfers complete before parts are shown */
        remat_session_set_trace_data(session, 0);
    for (uint32_t n = 0; n < settings->steps; n++)
        REMAT_TRY(step(ctx, rank, session, n));
    rank->result->states = hash_states(ctx, rank, session);
    rank->result->touched_bytes = settings->paint ? remat_session_touched_bytes(session) : 0;
    remat_session_set_trace(session, NULL, NULL);
    harness_write_inputs(ctx, session, &rank->plan, settings->steps, 0);
    begin_sleep(rank, &at_once);
    REMAT_TRY(remat_session_run(session, "eval"));
    MUST_OK(ctx, remat_session_read(session, "loss", &rank->result->evaluated, sizeof(float)));
fail:
    return st;
}

static void *run(void *user)
{
    struct rank *rank = user;
    remat_session_params params;
    remat_session *session;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    remat_session_params_init(&params);
    params.threads = 1;
    params.seed = 1;
    params.trace_copies = UINT32_MAX;
    params.trace = record;
    params.trace_user = rank;
    params.engine = rank->has_engine ? &rank->engine : NULL;
    params.transfer_timeout_ns = rank->settings->timeout_ns;
    params.ungrouped = rank->settings->ungrouped;
    if (rank->sleep)
        params.device = SLEEP_DEVICE_ON_CPUS;
    MUST_OK(ctx, remat_session_create(ctx, &rank->plan, &params, &session));
    if (rank->sleep)
        sleep_attach(rank->sleep, rank->number, session);
    rank->result->status = steps(ctx, rank, session);
    if (rank->result->status)
        snprintf(rank->result->message, sizeof rank->result->message, "%s",
                 remat_context_message(ctx));
    if (rank->sleep)
        snprintf(rank->result->wrong_access, sizeof rank->result->wrong_access, "%s",
                 sleep_message(rank->sleep, rank->number));
    remat_session_destroy(&session);
    remat_context_destroy(&ctx);
    return NULL;
}

void ranks_run(remat_context *ctx, struct remat_program *program,
               const struct ranks_settings *settings, struct ranks_result *results)
{
    uint32_t count = remat_program_ranks(program);
    struct rank *ranks = calloc(count, sizeof *ranks);
    remat_local_ranks *local = NULL, *beside = NULL;
    MUST(ranks && count <= RANKS_MAX);
    MUST_OK(ctx, remat_local_create(ctx, count, &local));
    MUST_OK(ctx, remat_local_create(ctx, count, &beside));
    struct sleep_ranks *sleep = settings->sleep ? sleep_create(program) : NULL;
    for (uint32_t r = 0; r < count; r++) {
        bool odd = r == 1 && settings->odd;
        results[r] = (struct ranks_result){0};
        ranks[r].number = r;
        ranks[r].plan = borrowed_plan(odd ? (struct remat_program *)settings->odd : program);
        ranks[r].settings = settings;
        ranks[r].sleep = sleep;
        ranks[r].result = &results[r];
        prepare_late(&ranks[r]);
        if (count > 1)
            set_engine(&ranks[r], local, beside);
    }
    for (uint32_t r = 0; r < count - settings->absent; r++)
        MUST(pthread_create(&ranks[r].thread, NULL, run, &ranks[r]) == 0);
    for (uint32_t r = 0; r < count - settings->absent; r++)
        pthread_join(ranks[r].thread, NULL);
    for (uint32_t r = 0; r < count; r++)
        release_late(&ranks[r]);
    if (sleep)
        sleep_destroy(&sleep);
    remat_local_destroy(&beside);
    remat_local_destroy(&local);
    free(ranks);
}

static uint32_t count_grouped(const struct remat_program *p, const char *name)
{
    uint32_t count = 0;
    for (uint32_t e = 0; e < p->entry_count; e++)
        for (uint32_t k = p->entries[e].call_begin; k < p->entries[e].call_end; k++) {
            const struct remat_segment *segment = &p->segments[p->calls[k].segment];
            for (uint32_t c = segment->command_begin; c < segment->command_end; c++)
                count += strcmp(p->entries[e].name, name) == 0 && p->commands[c].continues_group
                             ? p->calls[k].times
                             : 0;
        }
    return count;
}

uint32_t ranks_grouped(const struct remat_program *program, uint32_t steps)
{
    return steps * count_grouped(program, "train") + count_grouped(program, "eval");
}

bool ranks_equal(const struct ranks_result *a, const struct ranks_result *b, uint32_t count)
{
    return memcmp(a->loss, b->loss, count * sizeof *a->loss) == 0 &&
           memcmp(&a->evaluated, &b->evaluated, sizeof a->evaluated) == 0 &&
           memcmp(a->gradients, b->gradients, count * sizeof *a->gradients) == 0 &&
           a->gradient_count == b->gradient_count && a->states == b->states &&
           a->status == REMAT_OK && b->status == REMAT_OK;
}

/* --- every plan of a mesh --- */

static bool is_chosen(const struct plan *plan, uint32_t *budgets)
{
    static const char *const names[] = {"none", "uniform 1", "block 1", "selective core_attn",
                                        "uniform 1 distributed"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strcmp(plan->name, names[k]) == 0)
            return true;
    return plan->budget_bytes && ++*budgets % 2;
}

void ranks_check_graph(remat_context *ctx, struct remat_arena *arena,
                       const struct remat_graph *graph, const struct remat_pass_settings *passes,
                       const struct ranks_result *expected)
{
    const struct ranks_settings settings = {.steps = 2, .paint = true};
    struct ranks_result first, results[RANKS_MAX];
    uint32_t compared = 0, budgets = 0, recomputing = 0, sharded = 0;
    const struct plan_set plans = plans_make(ctx, arena, graph, passes);
    uint32_t ranks = remat_program_ranks(plans.items[0].program);
    for (uint32_t k = 0; k < plans.count; k++) {
        if (!is_chosen(&plans.items[k], &budgets))
            continue;
        struct remat_program *program = plans.items[k].program;
        ranks_run(ctx, program, &settings, results);
        if (compared++ == 0)
            first = expected ? *expected : results[0];
        recomputing += remat_program_recomputed(program) > 0;
        sharded += remat_program_count(program, REMAT_ACTION_PART) > 0;
        for (uint32_t r = 0; r < ranks; r++) {
            CHECK(ranks_equal(&first, &results[r], 2), "%s: %s: rank %u has other bits",
                  graph->name, plans.items[k].name, r);
            CHECK(results[r].touched_bytes == program->touched_bytes,
                  "%s: %s: rank %u touched %llu bytes of %llu", graph->name, plans.items[k].name, r,
                  (unsigned long long)results[r].touched_bytes,
                  (unsigned long long)program->touched_bytes);
        }
    }
    bool shards = remat_mesh_size(&graph->mesh, "tp") > 1 && !passes->sequence_parallel;
    CHECK(compared == (shards ? 10 : 9) && recomputing >= 5 && (sharded > 0) == shards,
          "%u plans, %u recompute, %u save shards", compared, recomputing, sharded);
    struct remat_program *guarded =
        harness_spread(ctx, arena, plans.items[1 + PLAN_BUDGETS].program);
    ranks_run(ctx, guarded, &(struct ranks_settings){.steps = 2, .guard = true}, results);
    for (uint32_t r = 0; r < ranks; r++)
        CHECK(ranks_equal(&first, &results[r], 2), "%s: rank %u with guards: %s", graph->name, r,
              results[r].message);
}

void ranks_check_plans(remat_context *ctx, const struct ranks_model *model, uint32_t ranks,
                       const struct ranks_result *expected)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    const struct remat_pass_settings passes = ranks_passes(model, ranks, 1);
    ranks_check_graph(ctx, &arena, ranks_graph(ctx, &arena, model, ranks, 1, 8, false), &passes,
                      expected);
    remat_arena_release(&arena);
}

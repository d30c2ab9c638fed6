/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include "borrowed_plan.h"

#include <stdio.h>
#include <stdlib.h>

void *harness_array(remat_context *ctx, struct remat_arena *arena, size_t count, size_t size)
{
    void *array = remat_arena_array(arena, count, size);
    MUST(array, "%s", remat_context_message(ctx));
    return array;
}

struct remat_graph *harness_model(remat_context *ctx, struct remat_arena *arena, const char *preset,
                                  struct remat_model_settings sizes)
{
    struct remat_model_settings s;
    struct remat_graph *graph;
    MUST_OK(ctx, remat_model_preset(ctx, preset, &s));
    s.layers = sizes.layers ? sizes.layers : s.layers;
    s.width = sizes.width ? sizes.width : s.width;
    s.heads = sizes.heads ? sizes.heads : s.heads;
    s.vocab = sizes.vocab ? sizes.vocab : s.vocab;
    s.vocab_multiple = sizes.vocab_multiple;
    s.context = sizes.context ? sizes.context : s.context;
    s.batch = sizes.batch ? sizes.batch : s.batch;
    s.seq = sizes.seq ? sizes.seq : s.seq;
    s.source_seq = sizes.source_seq ? sizes.source_seq : s.source_seq;
    s.kv_heads = sizes.kv_heads ? sizes.kv_heads : s.kv_heads;
    s.hidden = sizes.hidden ? sizes.hidden : s.hidden;
    s.head_size = sizes.head_size ? sizes.head_size : s.head_size;
    s.window = sizes.window;
    s.activation = sizes.activation;
    s.attention_bias = sizes.attention_bias;
    s.mlp_bias = sizes.mlp_bias;
    s.qk_norm = sizes.qk_norm;
    s.fused = sizes.fused;
    s.dtype = sizes.dtype ? sizes.dtype : s.dtype;
    s.dropout = sizes.dropout;
    s.written_out = sizes.written_out;
    s.forward_only = sizes.forward_only;
    s.optimizer.kind = sizes.optimizer.kind ? sizes.optimizer.kind : s.optimizer.kind;
    s.optimizer.clip_norm = sizes.optimizer.clip_norm;
    s.optimizer.no_master = sizes.optimizer.no_master;
    s.optimizer.bf16_moments = sizes.optimizer.bf16_moments;
    s.lora = sizes.lora;
    MUST_OK(ctx, remat_model_generate(ctx, arena, &s, &graph));
    return graph;
}

remat_status harness_compile(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_graph *graph,
                             const struct remat_pass_settings *passes,
                             const struct remat_policy_settings *policy, uint64_t budget_bytes,
                             struct remat_program **out)
{
    struct remat_compile_settings settings = {.search.policy = *policy};
    MUST_OK(ctx, remat_device_description_read(ctx, arena, "cpu", 0, &settings.device));
    settings.search.has_budget = budget_bytes != 0;
    settings.mesh = graph->mesh;
    settings.passes = passes ? *passes : (struct remat_pass_settings){0};
    settings.search.budget_bytes = budget_bytes;
    return remat_compile(ctx, arena, graph, &settings, out);
}

struct remat_program *harness_spread(remat_context *ctx, struct remat_arena *arena,
                                     const struct remat_program *program)
{
    struct remat_program *spread = harness_array(ctx, arena, 1, sizeof *spread);
    *spread = *program;
    spread->buffers = harness_array(ctx, arena, program->buffer_count, sizeof *spread->buffers);
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        struct remat_buffer *buffer = &spread->buffers[b];
        *buffer = program->buffers[b];
        if (!buffer->persistent)
            buffer->offset_bytes += buffer->offset_bytes - program->static_bytes;
    }
    spread->arena_bytes += program->arena_bytes - program->static_bytes;
    return spread;
}

struct hashes {
    uint64_t loss, gradients;
    uint32_t gradient_count;
};

static int hash_written(void *user, const remat_trace_event *event)
{
    struct hashes *h = user;
    for (uint32_t i = 0; i < event->value_count; i++) {
        const remat_trace_value *v = &event->values[i];
        uint64_t hash = remat_hash(v->data, v->bytes, remat_hash_string(v->name, 0));
        if (v->role == REMAT_TENSOR_OUTPUT && strcmp(v->name, "loss") == 0)
            h->loss = hash;
        if (v->role == REMAT_TENSOR_GRADIENT) {
            h->gradients += hash;
            h->gradient_count++;
        }
    }
    return 0;
}

/* Does nothing where the model has no such input. */
static void write_tokens(remat_context *ctx, remat_session *session, const remat_plan *plan,
                         const char *name, uint32_t step, uint32_t shift)
{
    remat_tensor_info info = {.struct_size = sizeof info};
    if (!remat_plan_get_tensor(plan, remat_plan_find_tensor(plan, name), &info))
        return;
    uint64_t count = info.bytes / 4;
    int32_t *ids = malloc(info.bytes);
    for (uint64_t i = 0; i < count; i++)
        ids[i] = (int32_t)(remat_hash(&(uint64_t){i + shift + step * count}, 8, 7) % 251);
    MUST_OK(ctx, remat_session_write(session, name, ids, info.bytes));
    free(ids);
}

static bool has_tensor(const remat_plan *plan, const char *name)
{
    remat_tensor_info info = {.struct_size = sizeof info};
    return remat_plan_get_tensor(plan, remat_plan_find_tensor(plan, name), &info);
}

static void write_number(remat_context *ctx, remat_session *session, const remat_plan *plan,
                         const char *name, const void *number)
{
    if (has_tensor(plan, name))
        MUST_OK(ctx, remat_session_write(session, name, number, 4));
}

void harness_write_inputs(remat_context *ctx, remat_session *session, const remat_plan *plan,
                          uint32_t step, float rate)
{
    const int32_t number = (int32_t)step + 1;
    write_tokens(ctx, session, plan, "tokens", step, 0);
    write_tokens(ctx, session, plan, "targets", step, 1);
    write_tokens(ctx, session, plan, "source", step, 2);
    write_number(ctx, session, plan, "lr", &rate);
    write_number(ctx, session, plan, "step", &number);
    if (has_tensor(plan, "rng"))
        MUST_OK(ctx, remat_session_write(session, "rng", (int32_t[]){5, 6, number, 0}, 16));
}

remat_session *harness_open(remat_context *ctx, const remat_plan *plan, uint32_t threads)
{
    remat_session_params params;
    remat_session *session;
    remat_session_params_init(&params);
    params.threads = threads;
    params.trace_copies = UINT32_MAX;
    MUST_OK(ctx, remat_session_create(ctx, plan, &params, &session));
    MUST_OK(ctx, remat_session_run(session, "init"));
    return session;
}

struct run_result harness_run(remat_context *ctx, struct remat_program *program,
                              const struct run_settings *settings)
{
    struct run_result result = {0};
    struct remat_plan plan = borrowed_plan(program);
    struct hashes hashes = {0};
    remat_session_params params;
    remat_session *session;
    remat_session_params_init(&params);
    params.threads = settings->threads;
    params.seed = 1;
    params.trace_copies = UINT32_MAX;
    MUST_OK(ctx, remat_session_create(ctx, &plan, &params, &session));
    remat_session_set_trace(session, hash_written, &hashes);
    MUST_OK(ctx, remat_session_run(session, "init"));
    if (settings->paint)
        remat_session_paint(session, program->static_bytes);
    if (settings->guard)
        MUST_OK(ctx, remat_session_guard(session));
    remat_session_poison(session, settings->poison);
    for (uint32_t step = 0; step < settings->steps; step++) {
        hashes = (struct hashes){0};
        harness_write_inputs(ctx, session, &plan, step, 1e-3f);
        MUST_OK(ctx, remat_session_run(session, "train"));
        MUST_OK(ctx, remat_session_read(session, "loss", &result.loss[step], sizeof(float)));
        result.loss_hash[step] = hashes.loss;
        result.gradient_hash[step] = hashes.gradients;
        result.gradient_count = hashes.gradient_count;
    }
    if (settings->paint)
        result.touched_bytes = remat_session_touched_bytes(session);
    remat_session_destroy(&session);
    return result;
}

uint64_t harness_decisions_hash(const struct remat_program *program)
{
    uint64_t hash = 0;
    for (uint32_t d = 0; d < program->decision_count; d++) {
        hash = remat_hash_string(program->decisions[d].name, hash);
        hash = remat_hash(&program->decisions[d].action, 1, hash);
        hash = remat_hash_string(program->decisions[d].reason, hash);
    }
    return hash;
}

uint64_t harness_offsets_hash(const struct remat_program *program)
{
    uint64_t hash = 0;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        hash = remat_hash(&program->buffers[b].offset_bytes, 8, hash);
        hash = remat_hash(&program->buffers[b].bytes, 8, hash);
    }
    return hash;
}

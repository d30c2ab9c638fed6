/* SPDX-License-Identifier: Apache-2.0 */
/* Round trip of a plan, the verifier against a table of broken programs, the simulator against
 * planted faults. */
#include "check.h"
#include "program.h"
#include "reader.h"
#include "sample_microbatches.h"
#include "sample_program.h"

static remat_context *ctx;

/* --- round trip, field by field --- */

#define SAME(field)      CHECK(a->field == b->field, "%u: " #field, i)
#define SAME_TEXT(field) CHECK(strcmp(a->field, b->field) == 0, "%u: " #field, i)
#define SAME_DIMS(field) CHECK(memcmp(a->field, b->field, sizeof a->field) == 0, "%u: " #field, i)
#define EACH(items, item_count)                                                                    \
    CHECK(p->item_count == q->item_count, #item_count);                                            \
    if (p->item_count == q->item_count)                                                            \
        for (uint32_t i = 0; i < p->item_count; i++)

static void compare_tables(const struct remat_program *p, const struct remat_program *q)
{
    EACH(buffers, buffer_count)
    {
        const struct remat_buffer *a = &p->buffers[i], *b = &q->buffers[i];
        SAME(offset_bytes);
        SAME(bytes);
        SAME(begin);
        SAME(end);
        SAME(persistent);
    }
    EACH(values, value_count)
    {
        const struct remat_program_value *a = &p->values[i], *b = &q->values[i];
        SAME_TEXT(name);
        SAME_TEXT(scope);
        SAME(layer);
        SAME(instance);
        SAME(dtype);
        SAME(role);
        SAME(phase);
        SAME(rank);
        SAME_DIMS(shape);
        SAME(bytes);
        SAME(buffer);
    }
    EACH(operands, operand_count)
    {
        const struct remat_operand *a = &p->operands[i], *b = &q->operands[i];
        SAME(value);
        SAME(previous);
        SAME(access);
        SAME(dtype);
        SAME(rank);
        SAME_DIMS(shape);
        SAME_DIMS(strides);
        SAME(offset_elements);
    }
    EACH(kernels, kernel_count)
    {
        const struct remat_kernel *a = &p->kernels[i], *b = &q->kernels[i];
        SAME(kind);
        SAME_TEXT(key);
        SAME(body.operand_count);
        SAME(body.instruction_count);
        size_t bytes = a->body.instruction_count * sizeof *a->body.instructions;
        CHECK(!bytes || !memcmp(a->body.instructions, b->body.instructions, bytes),
              "%u: instructions", i);
    }
    EACH(commands, command_count)
    {
        const struct remat_command *a = &p->commands[i], *b = &q->commands[i];
        SAME(kernel);
        SAME(operand_begin);
        SAME(operand_end);
        SAME(parameter_begin);
        SAME(parameter_end);
        SAME(phase);
        SAME(rank);
        SAME_DIMS(space);
        SAME_TEXT(name);
        SAME_TEXT(scope);
        SAME(layer);
        SAME(instance);
        SAME(flops);
        SAME(moved_bytes);
        SAME(estimated_ns);
        SAME(live_bytes);
        SAME(cost_source);
        SAME(complete_before);
        SAME(slowdown_permille);
    }
}

static void compare_report(const struct remat_program *p, const struct remat_program *q)
{
    EACH(segments, segment_count)
    {
        const struct remat_segment *a = &p->segments[i], *b = &q->segments[i];
        SAME_TEXT(name);
        SAME(command_begin);
        SAME(command_end);
    }
    EACH(entries, entry_count)
    {
        const struct remat_entry *a = &p->entries[i], *b = &q->entries[i];
        SAME_TEXT(name);
        SAME(call_begin);
        SAME(call_end);
    }
    EACH(calls, call_count)
    {
        const struct remat_call *a = &p->calls[i], *b = &q->calls[i];
        SAME(segment);
        SAME(times);
        SAME(first);
    }
    EACH(tensors, tensor_count)
    {
        const struct remat_tensor *a = &p->tensors[i], *b = &q->tensors[i];
        SAME_TEXT(name);
        SAME(value);
        SAME(initializer);
        SAME(init_mean);
        SAME(init_std);
        SAME(index_bound);
        SAME(index_ignored);
        SAME(unpadded_rows);
        SAME(data_bytes);
        CHECK(!a->data == !b->data && (!a->data || !memcmp(a->data, b->data, a->data_bytes)),
              "%u: data", i);
    }
    EACH(decisions, decision_count)
    {
        const struct remat_decision_record *a = &p->decisions[i], *b = &q->decisions[i];
        SAME_TEXT(name);
        SAME_TEXT(scope);
        SAME(layer);
        SAME(action);
        SAME_TEXT(reason);
        SAME(bytes);
        SAME(recompute_ns);
        SAME(saved_begin);
        SAME(saved_end);
        SAME(recomputable);
        SAME(recompute_extra_ns);
        SAME_TEXT(op);
        SAME(op_index);
        SAME(dtype);
        SAME(rank);
        SAME(leaves_layer);
        for (uint32_t d = 0; d < a->rank; d++)
            SAME(shape[d]);
    }
    EACH(settings, setting_count)
    {
        const struct remat_setting *a = &p->settings[i], *b = &q->settings[i];
        SAME_TEXT(name);
        SAME_TEXT(value);
    }
    EACH(keeps, keep_count)
    {
        const struct remat_keep_record *a = &p->keeps[i], *b = &q->keeps[i];
        SAME(decision);
        SAME(action);
        SAME(bytes);
        SAME(ns);
    }
    EACH(manuals, manual_count)
    {
        const struct remat_manual *a = &p->manuals[i], *b = &q->manuals[i];
        SAME_TEXT(system);
        SAME_TEXT(policy);
        SAME_TEXT(flags);
        SAME(step_ns);
    }
    EACH(parameters, parameter_count)
    CHECK(p->parameters[i] == q->parameters[i], "parameter %u", i);
    EACH(recomputed_layers, recomputed_layer_count)
    CHECK(p->recomputed_layers[i] == q->recomputed_layers[i], "recomputed layer %u", i);
    EACH(notes, note_count)
    CHECK(strcmp(p->notes[i], q->notes[i]) == 0, "note %u", i);
}

static void compare_cuda(const struct remat_cuda_code *p, const struct remat_cuda_code *q,
                         uint32_t command_count)
{
    CHECK(p->workspace_bytes == q->workspace_bytes, "workspace_bytes");
    EACH(preludes, prelude_count)
    CHECK(strcmp(p->preludes[i], q->preludes[i]) == 0, "prelude %u", i);
    EACH(kernels, kernel_count)
    {
        const struct remat_cuda_kernel *a = &p->kernels[i], *b = &q->kernels[i];
        SAME_TEXT(key);
        SAME_TEXT(symbol);
        SAME_TEXT(text);
        SAME(prelude);
        SAME(threads);
        SAME(shared_bytes);
        SAME(tensor_words);
    }
    EACH(launches, launch_count)
    {
        const struct remat_cuda_launch *a = &p->launches[i], *b = &q->launches[i];
        SAME(kernel);
        SAME(blocks);
        SAME(word_begin);
        SAME(word_end);
    }
    EACH(words, word_count)
    {
        const struct remat_cuda_word *a = &p->words[i], *b = &q->words[i];
        SAME(kind);
        SAME(value);
    }
    for (uint32_t c = 0; c <= command_count; c++)
        CHECK(p->launch_begin[c] == q->launch_begin[c], "launch_begin %u", c);
    EACH(cubins, cubin_count)
    {
        const struct remat_cubin *a = &p->cubins[i], *b = &q->cubins[i];
        SAME(kernel);
        SAME_TEXT(arch);
        SAME(bytes);
        CHECK(memcmp(a->data, b->data, a->bytes) == 0, "cubin %u: data", i);
        SAME(registers);
        SAME(spill_bytes);
        SAME(shared_bytes);
        SAME_TEXT(warnings);
        CHECK(remat_cubin_find(q, a->kernel, a->arch) == b, "cubin %u is not found", i);
    }
    CHECK(!remat_cubin_find(q, 1, "sm_90a"), "a cubin that there is not");
    CHECK(p->nvrtc_version == q->nvrtc_version, "nvrtc_version %u", q->nvrtc_version);
}

static void compare_head(const struct remat_program *a, const struct remat_program *b)
{
    uint32_t i = 0;
    SAME_TEXT(producer);
    SAME_TEXT(graph_name);
    SAME_TEXT(target);
    SAME_TEXT(target_arch);
    SAME_TEXT(limited_by);
    SAME_TEXT(config);
    SAME_TEXT(plan_only);
    SAME_TEXT(chosen_by);
    SAME_TEXT(policy);
    SAME(graph_hash);
    SAME(numerics_hash);
    SAME(budget_bytes);
    SAME(reserve_bytes);
    SAME(arena_bytes);
    SAME(peak_bytes);
    SAME(static_bytes);
    SAME(touched_bytes);
    SAME(peak_command);
    SAME(step_ns);
    SAME(base_step_ns);
    SAME(bound_step_ns);
    SAME(floor_bytes);
    SAME(tokens);
    SAME(model_flops);
    SAME(model_ns);
    SAME(layer_count);
    SAME(workspace_bytes);
    SAME(exact_extras);
}

static void test_round_trip(struct remat_arena *arena)
{
    struct sample s;
    struct remat_program *q = NULL;
    const void *data = NULL, *again = NULL;
    size_t bytes = 0, bytes_again = 0;
    sample_program(&s);
    remat_status st = remat_program_write(ctx, &s.program, arena, &data, &bytes);
    if (!CHECK_OK(ctx, st, "write"))
        return;
    st = remat_program_read(ctx, "model.plan", data, bytes, arena, &q);
    if (!CHECK_OK(ctx, st, "read"))
        return;
    compare_head(&s.program, q);
    compare_tables(&s.program, q);
    compare_report(&s.program, q);
    compare_cuda(&s.program.cuda, &q->cuda, q->command_count);
    CHECK(remat_program_recomputed(q) == 2 && remat_program_count(q, REMAT_ACTION_INLINE) == 1,
          "recomputed");
    CHECK_OK(ctx, remat_program_simulate(ctx, q), "simulate");
    st = remat_program_write(ctx, q, arena, &again, &bytes_again);
    CHECK(st == REMAT_OK && bytes == bytes_again && memcmp(data, again, bytes) == 0,
          "same program, same bytes");
}

/* The sample has no i32 input. */
static void test_indices(struct remat_arena *arena)
{
    struct sample s;
    struct remat_program *q = NULL;
    const void *data = NULL;
    size_t bytes = 0;
    sample_program(&s);
    struct remat_program_value values[LOSS + 2];
    const uint32_t ids = LOSS + 1;
    memcpy(values, s.values, sizeof s.values);
    values[ids] = values[LOSS];
    values[ids].dtype = REMAT_I32;
    values[ids].role = REMAT_ROLE_INPUT;
    s.program.values = values;
    s.program.value_count++;
    s.tensors[3] = (struct remat_tensor){
        .name = "ids", .value = ids, .index_bound = 1u << 31, .index_ignored = -100};
    remat_status st = remat_program_write(ctx, &s.program, arena, &data, &bytes);
    if (st == REMAT_OK)
        st = remat_program_read(ctx, "p", data, bytes, arena, &q);
    if (CHECK_OK(ctx, st))
        compare_report(&s.program, q);
    values[ids].role = REMAT_ROLE_OUTPUT;
    CHECK_STATUS(ctx, remat_program_verify(ctx, &s.program), REMAT_ERROR_INVALID,
                 "but it is no i32 input");
}

static void test_constants(struct remat_arena *arena)
{
    static const float elements[8] = {1, 2, 3, 4, 5, 6, 7, -0.0f};
    struct sample s;
    struct remat_program *q = NULL;
    const void *data = NULL;
    size_t bytes = 0;
    sample_program(&s);
    s.values[X].role = REMAT_ROLE_CONSTANT;
    s.tensors[1].data = elements;
    s.tensors[1].data_bytes = sizeof elements;
    remat_status st = remat_program_write(ctx, &s.program, arena, &data, &bytes);
    if (st == REMAT_OK)
        st = remat_program_read(ctx, "p", data, bytes, arena, &q);
    if (CHECK_OK(ctx, st))
        compare_report(&s.program, q);
}

/* Readers that do not know kernels with tensor_words, or the mark, refuse a plan that has them. */
static void test_features(struct remat_arena *arena)
{
    for (uint32_t words = 0; words <= 3; words += 3) {
        struct sample s;
        struct remat_fb_program_Plan root;
        const void *data = NULL;
        size_t bytes = 0;
        sample_program(&s);
        s.cuda_kernels[2].tensor_words = words;
        s.program.plan_only = words ? "" : "rope_type is \"yarn\"";
        bool found = remat_program_write(ctx, &s.program, arena, &data, &bytes) == REMAT_OK &&
                     remat_fb_open_program((const char *)data + REMAT_CONTAINER_BYTES,
                                           bytes - REMAT_CONTAINER_BYTES, &root) == REMAT_FB_OK;
        CHECK(found && root.required_features ==
                           (words ? REMAT_FEATURE_TENSORS : REMAT_FEATURE_PLAN_ONLY),
              "features with tensor_words %u", words);
    }
}

static bool listing; /* every message, for rules.py */

static void list_message(void)
{
    if (listing)
        printf("%s\n", remat_context_message(ctx));
}

/* A mesh is read as it was written, and refused by readers that know none. */
static void test_mesh(struct remat_arena *arena)
{
    struct sample_microbatches s;
    struct remat_mesh_axis mesh[] = {{"dp", 4, 3}, {"tp", 2, 3}};
    struct remat_program *q = NULL;
    struct remat_fb_program_Plan root;
    const void *data = NULL;
    size_t bytes = 0;
    sample_microbatches(&s);
    CHECK(remat_program_ranks(&s.program) == 1, "ranks without a mesh");
    s.program.mesh = mesh;
    s.program.mesh_count = 1;
    struct remat_program_value *value = &s.program.values[s.program.tensors[0].value];
    value->whole_rank = 2;
    value->whole[0] = (int64_t)(value->bytes / remat_dtype_bytes((remat_dtype)value->dtype));
    value->whole[1] = 4;
    value->part_run = (uint64_t)value->whole[0];
    value->block_axis = REMAT_NONE;
    remat_status st = remat_program_write(ctx, &s.program, arena, &data, &bytes);
    if (st == REMAT_OK)
        st = remat_program_read(ctx, "p", data, bytes, arena, &q);
    if (!CHECK_OK(ctx, st))
        return;
    const struct remat_program_value *part = &q->values[q->tensors[0].value];
    CHECK(part->whole_rank == 2 && part->whole[0] == value->whole[0] && part->whole[1] == 4 &&
              part->part_axis == 0 && part->part_run == value->part_run &&
              part->block_axis == REMAT_NONE,
          "the part that was read");
    value->whole[1] = 5;
    CHECK_STATUS(ctx, remat_program_verify(ctx, &s.program), REMAT_ERROR_INVALID,
                 "it is no equal part of a tensor for each rank of the mesh");
    value->whole[1] = 4;
    s.program.mesh_count = 0;
    CHECK_STATUS(ctx, remat_program_verify(ctx, &s.program), REMAT_ERROR_INVALID,
                 "it is no equal part of a tensor for each rank of the mesh");
    CHECK(q->mesh_count == 1 && strcmp(q->mesh[0].name, "dp") == 0 && q->mesh[0].size == 4 &&
              q->mesh[0].tensor == 3 && remat_program_ranks(q) == 4,
          "the mesh that was read");
    CHECK(q->number_tensor == 1 && q->calls[1].first == 1 && q->calls[2].first == 0,
          "the numbers that were read");
    CHECK(remat_fb_open_program((const char *)data + REMAT_CONTAINER_BYTES,
                                bytes - REMAT_CONTAINER_BYTES, &root) == REMAT_FB_OK &&
              root.required_features ==
                  (REMAT_FEATURE_MESH | REMAT_FEATURE_PARTS | REMAT_FEATURE_NUMBER),
          "features");
    value->whole[1] = 8; /* runs of two blocks */
    value->part_run *= 2;
    value->block_axis = 1;
    s.program.mesh_count = 2;
    st = remat_program_write(ctx, &s.program, arena, &data, &bytes);
    if (st == REMAT_OK)
        st = remat_program_read(ctx, "p", data, bytes, arena, &q);
    if (!CHECK_OK(ctx, st))
        return;
    CHECK(q->values[q->tensors[0].value].block_axis == 1, "the block that was read");
    CHECK(remat_fb_open_program((const char *)data + REMAT_CONTAINER_BYTES,
                                bytes - REMAT_CONTAINER_BYTES, &root) == REMAT_FB_OK &&
              root.required_features == (REMAT_FEATURE_MESH | REMAT_FEATURE_PARTS |
                                         REMAT_FEATURE_BLOCKS | REMAT_FEATURE_NUMBER),
          "features of blocks");
    mesh[1].tensor = s.program.number_tensor;
    CHECK_STATUS(ctx, remat_program_verify(ctx, &s.program), REMAT_ERROR_INVALID,
                 "mesh[1] \"tp\": its coordinate lies in \"index\", the number of the microbatch");
    list_message();
    for (value->block_axis = 0; value->block_axis <= 2; value->block_axis += 2)
        CHECK_STATUS(ctx, remat_program_verify(ctx, &s.program), REMAT_ERROR_INVALID,
                     "it is no equal part of a tensor for each rank of the mesh");
}

/* Larger than the writer's first block many times over. */
static void test_large(struct remat_arena *arena)
{
    enum { COUNT = 30000 };
    struct sample s;
    struct remat_program *q = NULL;
    const void *data = NULL;
    size_t bytes = 0;
    sample_program(&s);
    struct remat_program_value *values = remat_arena_array(arena, COUNT, sizeof *values);
    for (uint32_t i = 0; i < COUNT; i++) {
        values[i] = s.values[i < s.program.value_count ? i : Y];
        values[i].name =
            i < s.program.value_count ? values[i].name : remat_arena_format(arena, "value.%u", i);
    }
    s.program.values = values;
    s.program.value_count = COUNT;
    remat_status st = remat_program_write(ctx, &s.program, arena, &data, &bytes);
    CHECK_OK(ctx, st, "write");
    if (st == REMAT_OK && (st = remat_program_read(ctx, "p", data, bytes, arena, &q)) != REMAT_OK)
        CHECK(false, "read: %s", remat_context_message(ctx));
    if (st == REMAT_OK)
        compare_tables(&s.program, q);
    printf("%u values: %zu bytes\n", COUNT, bytes);
}

/* --- container --- */

static void expect_unreadable(struct remat_arena *arena, const void *data, size_t bytes,
                              const char *message)
{
    struct remat_program *program;
    CHECK_STATUS(ctx, remat_program_read(ctx, "p", data, bytes, arena, &program),
                 REMAT_ERROR_INVALID, message);
}

static void test_container(struct remat_arena *arena)
{
    struct sample s;
    const void *data = NULL;
    size_t bytes = 0;
    sample_program(&s);
    CHECK_OK(ctx, remat_program_write(ctx, &s.program, arena, &data, &bytes));
    for (size_t cut = 0; cut < bytes; cut++)
        expect_unreadable(arena, data, cut, cut ? "truncated" : "the file is empty");
    unsigned char *copy = remat_arena_array(arena, bytes + 1, 1);
    for (size_t at = 0; at < bytes * 8; at++) {
        memcpy(copy, data, bytes);
        copy[at / 8] ^= (unsigned char)(1 << at % 8);
        expect_unreadable(arena, copy, bytes, "p: ");
    }
    memcpy(copy, data, bytes);
    copy[bytes - 1] ^= 1;
    expect_unreadable(arena, copy, bytes, "p: damaged: its checksum does not match");
    expect_unreadable(arena, data, bytes - 1, "p: truncated: it has ");
    memcpy(copy, data, bytes);
    expect_unreadable(arena, copy, bytes + 1, "its header says");
    memcpy(copy + 4, "RMG1", 4);
    expect_unreadable(arena, copy, bytes, "p: this is a graph; expected a plan");
    expect_unreadable(arena, "PK\3\4zip file", 12, "zip archive");
    expect_unreadable(arena, "{\"a\": 12345}", 12, "this is JSON");
    expect_unreadable(arena, "table Plan {}", 13, "this is a FlatBuffers schema");
    expect_unreadable(arena, "some text", 9, "this is text");
    expect_unreadable(arena, "\1\2\3\4\5\6\7\10", 8, "p: not a plan");
}

/* --- verifier --- */

struct fault {
    void (*plant)(struct sample *s);
    const char *message;
};

/* Runs the longest segment as often as a script can say. */
static struct remat_call *many_calls(void)
{
    static struct remat_call calls[65537];
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        calls[i] = (struct remat_call){1, REMAT_CALL_TIMES_MAX, 0};
    return calls;
}

/* One more than a launch may have. */
static struct remat_cuda_word *many_words(void)
{
    static struct remat_cuda_word words[REMAT_CUDA_WORDS_MAX + 1];
    return words;
}

static void ones(int64_t dims[REMAT_RANK_MAX])
{
    for (uint32_t d = 0; d < REMAT_RANK_MAX; d++)
        dims[d] = 1;
}

#define FAULT(name, statement)                                                                     \
    static void name(struct sample *s)                                                             \
    {                                                                                              \
        struct remat_program *p = &s->program;                                                     \
        (void)p;                                                                                   \
        statement;                                                                                 \
    }
#define BROKEN(name, statement, message) FAULT(name, statement)
#include "broken_programs.def"
#undef BROKEN

static const struct fault broken[] = {
#define BROKEN(name, statement, message) {name, message},
#include "broken_programs.def"
#undef BROKEN
};

#define VALID(name, statement) FAULT(name, statement)
#include "valid_programs.def"
#undef VALID

static void (*const valid[])(struct sample *s) = {
#define VALID(name, statement) name,
#include "valid_programs.def"
#undef VALID
};

static void test_verify(void)
{
    struct sample s;
    sample_program(&s);
    CHECK_OK(ctx, remat_program_verify(ctx, &s.program));
    for (size_t k = 0; k < sizeof broken / sizeof *broken; k++) {
        sample_program(&s);
        broken[k].plant(&s);
        CHECK_STATUS(ctx, remat_program_verify(ctx, &s.program), REMAT_ERROR_INVALID,
                     broken[k].message);
        list_message();
    }
    for (size_t k = 0; k < sizeof valid / sizeof *valid; k++) {
        sample_program(&s);
        valid[k](&s);
        CHECK_OK(ctx, remat_program_verify(ctx, &s.program));
    }
}

static void test_number(void)
{
    struct sample_microbatches s;
    sample_microbatches(&s);
    s.operands[0] = s.operands[2];
    s.operands[0].access = REMAT_ACCESS_WRITE;
    CHECK_STATUS(ctx, remat_program_verify(ctx, &s.program), REMAT_ERROR_INVALID,
                 "commands[0] \"part.zero\": it writes \"index\", the number of the microbatch, "
                 "which the session writes");
    list_message();
}

/* --- simulator --- */

#define WRONG(name, statement, message) FAULT(name, statement)
#include "wrong_programs.def"
#undef WRONG

static const struct fault wrong[] = {
#define WRONG(name, statement, message) {name, message},
#include "wrong_programs.def"
#undef WRONG
};

static void test_simulate(struct remat_arena *arena)
{
    struct sample s;
    const void *data;
    size_t bytes;
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        sample_program(&s);
        wrong[k].plant(&s);
        remat_status st = remat_program_verify(ctx, &s.program);
        CHECK_OK(ctx, st, "the fault is the simulator's");
        st = remat_program_write(ctx, &s.program, arena, &data, &bytes);
        if (CHECK_OK(ctx, st))
            expect_unreadable(arena, data, bytes, wrong[k].message);
        CHECK_STATUS(ctx, remat_program_simulate(ctx, &s.program), REMAT_ERROR_INVALID,
                     wrong[k].message);
        list_message();
    }
}

int main(int argc, char **argv)
{
    struct remat_arena arena;
    listing = argc > 1 && strcmp(argv[1], "messages") == 0;
    MUST(ctx = remat_context_create(NULL, NULL));
    remat_arena_init(&arena, ctx);
    test_round_trip(&arena);
    test_indices(&arena);
    test_constants(&arena);
    test_mesh(&arena);
    test_features(&arena);
    test_large(&arena);
    test_container(&arena);
    test_verify();
    test_number();
    test_simulate(&arena);
    CHECK(strcmp(remat_role_name(REMAT_ROLE_OPTIMIZER_STATE), "optimizer state") == 0, "role");
    CHECK(!remat_role_name(REMAT_ROLE_COUNT) && !remat_phase_name(REMAT_PHASE_COUNT), "range");
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of built-in ops as views: each in turn a transpose, and a slice whose rows lie apart.
 * The bits of the results are those of the op on graph inputs with the same elements. Ops that no
 * view but one of a single element fits are listed too; a built-in op without a case fails, but for
 * foreign ones, which never run. */
#include "borrowed_plan.h"
#include "builder.h"
#include "harness.h"

#define OPERANDS    9
#define RESULTS     3
#define BYTES_MAX   4096
#define ELEMENT(at) ((int32_t)((at)*7 % 5))

enum form { DENSE, TRANSPOSED, SLICED, FORMS };

/* Operands as "2,3" f32 or "i2,3" i32. Of an op with ranks there is a plan, and no run. */
static const struct sample {
    const char *op, *operands[OPERANDS];
    struct remat_attribute attributes[6];
    uint32_t results;
    bool ranks;
} samples[] = {
#define INT(key, value)                                                                            \
    {                                                                                              \
        key, REMAT_ATTRIBUTE_INT, .i = value                                                       \
    }
#define FLOAT(key, value)                                                                          \
    {                                                                                              \
        key, REMAT_ATTRIBUTE_FLOAT, .f = value                                                     \
    }
    {"pad", {"3,4"}, {INT("axis", 1), INT("begin", 2), INT("length", 7)}, 1, false},
    {"concat", {"3,4", "3,4"}, {INT("axis", 1)}, 1, false},
    {"matmul", {"2,3,4", "2,4,5"}, {{0}}, 1, false},
    {"matmul", {"2,4,3", "2,5,4"}, {INT("transpose_a", 1), INT("transpose_b", 1)}, 1, false},
    {"matmul_accumulate", {"3,5", "3,4", "4,5"}, {{0}}, 1, false},
    {"attention",
     {"2,3,2,4", "2,3,1,4", "2,3,1,4"},
     {FLOAT("scale", 0.5), INT("causal", 1)},
     2,
     false},
    {"attention",
     {"2,3,2,4", "2,3,1,4", "2,3,1,4", "i4", "i2,3", "i2,3"},
     {FLOAT("scale", 0.5), FLOAT("p", 0.5), INT("site", 3)},
     2,
     false},
    {"attention_backward",
     {"2,3,2,4", "2,3,2,4", "2,3,1,4", "2,3,1,4", "2,3,2,4", "2,2,3", "i4", "i2,3", "i2,3"},
     {FLOAT("scale", 0.5), FLOAT("p", 0.5), INT("site", 3)},
     3,
     false},
    {"embedding", {"5,4", "i2,3"}, {{0}}, 1, false},
    {"embedding_backward", {"2,3,4", "i2,3"}, {INT("rows", 5)}, 1, false},
    {"embedding_accumulate", {"5,4", "2,3,4", "i2,3"}, {{0}}, 1, false},
    {"random",
     {"i4"},
     {{"shape", REMAT_ATTRIBUTE_INTS, .count = 1, .ints = (int64_t[]){9}}, INT("site", 3)},
     1,
     false},
    {"batch_slice", {"4,3", "i1"}, {INT("count", 2)}, 1, false},
    {"advance", {"i1"}, {INT("count", 9)}, 1, false},
    {"part_number", {"i1", "i1"}, {INT("count", 2)}, 1, false},
    {"own_ids", {"i2,3", "i1"}, {INT("count", 2)}, 1, false},
    {"adamw_coefficients",
     {"1", "i1"},
     {FLOAT("beta1", 0.9), FLOAT("beta2", 0.9), FLOAT("weight_decay", 0.0)},
     1,
     false},
    {"rope_table", {NULL}, {INT("length", 3), INT("pairs", 2), FLOAT("theta", 100.0)}, 1, false},
    {"exchange", {"3,5"}, {INT("group", 0), INT("ranks", 2)}, 1, true},
    {"exchange", {"2,5"}, {INT("group", 0), INT("ranks", 2)}, 1, true},
    {"gather",
     {"3"},
     {INT("group", 0),
      INT("ranks", 2),
      {"shape", REMAT_ATTRIBUTE_INTS, .count = 1, .ints = (int64_t[]){5}}},
     1,
     true},
};
enum { SAMPLE_COUNT = sizeof samples / sizeof *samples };

static remat_context *ctx;

static struct remat_value_info read_operand(const char *text, const char *name)
{
    struct remat_value_info info = {
        .name = name, .dtype = REMAT_F32, .role = REMAT_ROLE_INPUT, .node = REMAT_NO_NODE};
    if (*text == 'i') {
        info.dtype = REMAT_I32;
        text++;
    }
    for (; *text; text += *text == ',')
        info.shape.dims[info.shape.rank++] = strtoll(text, (char **)&text, 10);
    return info;
}

/* A graph input "xK" and the operand that is a view of it. */
static remat_value add_operand(struct remat_builder *b, const char *text, uint32_t k,
                               enum form form)
{
    struct remat_value_info info = read_operand(text, remat_arena_format(b->arena, "x%u", k));
    struct remat_shape shape = info.shape, *given = &info.shape;
    uint32_t last = shape.rank - 1;
    int64_t reversed[REMAT_RANK_MAX];
    if (form == SLICED) { /* of a rank 1 every second element */
        given->dims[last] = shape.rank > 1 ? shape.dims[last] + 2 : shape.dims[last];
        if (shape.rank == 1)
            given->dims[given->rank++] = 2;
        remat_value x = remat_graph_add_value(b->arena, b->graph, &info);
        x = remat_build_slice(b, x, given->rank - 1, 0, shape.rank > 1 ? shape.dims[last] : 1);
        return remat_build_reshape(b, x, shape.dims, shape.rank);
    }
    for (uint32_t d = 0; form == TRANSPOSED && d <= last; d++) {
        reversed[d] = last - d;
        given->dims[d] = shape.dims[last - d];
    }
    remat_value x = remat_graph_add_value(b->arena, b->graph, &info);
    const struct remat_attribute permutation =
        remat_attribute_ints("permutation", reversed, shape.rank);
    return form == DENSE ? x : remat_build(b, REMAT_OP_transpose, &x, 1, &permutation, 1, NULL);
}

/* The element of the operand that lies at `at` of its graph input; garbage beside it. */
static int32_t element_of(const struct remat_shape *shape, enum form form, uint64_t at)
{
    uint32_t last = shape->rank - 1;
    uint64_t columns = (uint64_t)shape->dims[last], element = 0, stride = 1;
    if (form == DENSE)
        return ELEMENT(at);
    if (form == SLICED && shape->rank == 1)
        return at % 2 ? 4 : ELEMENT(at / 2);
    if (form == SLICED)
        return at % (columns + 2) < columns
                   ? ELEMENT(at / (columns + 2) * columns + at % (columns + 2))
                   : 4;
    uint64_t strides[REMAT_RANK_MAX];
    for (uint32_t d = shape->rank; d-- > 0; stride *= (uint64_t)shape->dims[d])
        strides[d] = stride;
    for (uint32_t d = 0; d <= last; d++) { /* the input's last axis is the first of the operand */
        element += at % (uint64_t)shape->dims[d] * strides[d];
        at /= (uint64_t)shape->dims[d];
    }
    return ELEMENT(element);
}

static void write_operand(remat_session *session, const struct remat_plan *plan,
                          const struct sample *sample, uint32_t k, enum form form)
{
    int32_t integers[BYTES_MAX / 4];
    float floats[BYTES_MAX / 4];
    char name[8];
    remat_tensor_info info = {.struct_size = sizeof info};
    struct remat_value_info operand = read_operand(sample->operands[k], name);
    snprintf(name, sizeof name, "x%u", k);
    uint32_t tensor = remat_plan_find_tensor(plan, name);
    MUST(tensor != UINT32_MAX, "%s: %s", sample->op, name);
    remat_plan_get_tensor(plan, tensor, &info);
    MUST(info.bytes <= BYTES_MAX);
    for (uint64_t i = 0; i < info.bytes / 4; i++) {
        integers[i] = element_of(&operand.shape, form, i);
        if (i == 0 && remat_shape_elements(&operand.shape) == 1)
            integers[i] = 1; /* an index or a step */
        floats[i] = (float)integers[i] - 1.75f;
    }
    MUST_OK(ctx, remat_session_write(session, name,
                                     operand.dtype == REMAT_I32 ? (void *)integers : floats,
                                     info.bytes));
}

/* The op with operand `viewed` in that form; what it updates in place is computed before. */
static struct remat_graph *make(struct remat_arena *arena, const struct sample *sample,
                                uint32_t viewed, enum form form)
{
    struct remat_graph *graph = remat_graph_create(arena, sample->op);
    struct remat_builder b = {.arena = arena, .graph = graph, .prefix = "t"};
    remat_value operands[OPERANDS], results[RESULTS];
    uint32_t count = 0, attributes = 0;
    uint16_t op;
    MUST(remat_op_find(sample->op, strlen(sample->op), &op), "%s", sample->op);
    for (; count < OPERANDS && sample->operands[count]; count++)
        operands[count] =
            add_operand(&b, sample->operands[count], count, count == viewed ? form : DENSE);
    const struct remat_attribute axis = remat_attribute_int("axis", 0);
    if (remat_op_has(op, REMAT_FACT_IN_PLACE))
        operands[0] = remat_build(&b, REMAT_OP_concat, operands, 1, &axis, 1, NULL);
    while (sample->attributes[attributes].key)
        attributes++;
    b.name = "y";
    MUST_OK(ctx,
            remat_build_checked(&b, op, operands, count, sample->attributes, attributes, results));
    if (sample->ranks) { /* among them the only output is the mean of a loss */
        const int64_t elements = remat_shape_elements(&graph->values[results[0].i].shape);
        results[0] = remat_build_reshape(&b, results[0], (int64_t[]){1, elements}, 2);
        results[0] = remat_build1(&b, REMAT_OP_row_sum, results[0]);
        results[0] = remat_build_reshape(&b, results[0], NULL, 0);
        struct remat_value_info rank = read_operand("i1", "mesh.dp");
        rank.role = REMAT_ROLE_OPTIMIZER_STATE;
        remat_graph_add_value(arena, graph, &rank);
        graph->mesh = (struct remat_mesh){.axis_count = 1, .axes = {{.name = "dp", .size = 2}}};
    }
    graph->outputs = remat_arena_array(arena, RESULTS, sizeof *graph->outputs);
    for (uint32_t k = 0; k < sample->results; k++) {
        graph->outputs[graph->output_count++] = results[k];
        graph->values[results[k].i].role = REMAT_ROLE_OUTPUT;
    }
    return graph;
}

/* Of the results' bytes; 0 of an op with ranks. */
static uint64_t run(const struct sample *sample, uint32_t viewed, enum form form)
{
    static const char *const names[RESULTS] = {"y", "y.1", "y.2"};
    struct remat_arena arena;
    struct remat_program *program;
    struct remat_policy_settings policy = {0};
    uint64_t hash = 0;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = make(&arena, sample, viewed, form);
    remat_status st = harness_compile(ctx, &arena, graph, NULL, &policy, 0, &program);
    CHECK(st == REMAT_OK, "%s, operand %u, form %d: %s", sample->op, viewed, form,
          remat_context_message(ctx));
    if (st == REMAT_OK && !sample->ranks) {
        struct remat_plan plan = borrowed_plan(program);
        remat_session *session = harness_open(ctx, &plan, 2);
        for (uint32_t k = 0; k < OPERANDS && sample->operands[k]; k++)
            write_operand(session, &plan, sample, k, k == viewed ? form : DENSE);
        MUST_OK(ctx, remat_session_run(session, "eval"));
        for (uint32_t k = 0; k < sample->results; k++) {
            char bytes[BYTES_MAX];
            remat_tensor_info info = {.struct_size = sizeof info};
            remat_plan_get_tensor(&plan, remat_plan_find_tensor(&plan, names[k]), &info);
            MUST_OK(ctx, remat_session_read(session, names[k], bytes, info.bytes));
            hash = remat_hash(bytes, info.bytes, hash);
        }
        remat_session_destroy(&session);
    }
    remat_arena_release(&arena);
    return hash;
}

static void test_all_have_cases(void)
{
    for (uint16_t op = 0; op < REMAT_OP_COUNT; op++) {
        bool found = !remat_op_has(op, REMAT_FACT_BUILTIN) || remat_op_has(op, REMAT_FACT_FOREIGN);
        for (uint32_t s = 0; s < SAMPLE_COUNT; s++)
            found |= strcmp(samples[s].op, remat_op_info(op)->name) == 0;
        CHECK(found, "%s has no case", remat_op_info(op)->name);
    }
}

int main(void)
{
    ctx = remat_context_create(NULL, NULL);
    test_all_have_cases();
    for (uint32_t s = 0; s < SAMPLE_COUNT; s++) {
        const struct sample *sample = &samples[s];
        uint64_t dense = run(sample, 0, DENSE);
        for (uint32_t k = 0; k < OPERANDS && sample->operands[k]; k++)
            for (enum form form = TRANSPOSED; form < FORMS; form++)
                CHECK(run(sample, k, form) == dense, "%s, operand %u, form %d: other bits",
                      sample->op, k, form);
    }
    remat_context_destroy(&ctx);
    return check_exit();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan accepts of inputs that are indices, and that a session holds its host to it: element,
 * value and what is accepted are named, and nothing is written. What the host writes into the
 * session's memory by itself, the kernels find. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "borrowed_plan.h"
#include "graph_text.h"
#include "harness.h"

/* --- what follows from a graph --- */

#define HEAD                                                                                       \
    "graph \"g\"\n"                                                                                \
    "input %a : i32[2,4]\n"                                                                        \
    "input %b : i32[2,3]\n"                                                                        \
    "parameter %seven : f32[7,4] = normal(0.0, 0.02) frozen\n"                                     \
    "parameter %five : f32[5,4] = normal(0.0, 0.02) frozen\n"                                      \
    "%begin : i32[2,3] = slice %a { axis = 1, begin = 0, end = 3 } phase forward\n"                \
    "%end : i32[2,3] = slice %a { axis = 1, begin = 1, end = 4 } phase forward\n"
#define ROWS(to, table, ids) "%" to " : f32[2,3,4] = embedding %" table " %" ids " phase forward\n"
#define LOGITS(table, classes)                                                                     \
    "%logits : f32[2,3," classes "] = linear %x %" table " { transpose_weight = 1 } phase "        \
    "forward\n"
#define LOSS(to, classes, targets, attributes)                                                     \
    "%" to " : f32[], %" to ".1 : f32[2,3,1] = cross_entropy %logits %" targets " " attributes     \
    " phase loss\n"
#define IGNORE(element) "{ ignore_index = " element " }"
#define END             "output %loss\n"
#define TWO_LOSSES      "%loss : f32[] = add %one %two phase loss\n" END

static const struct {
    const char *name, *text;
    struct remat_indices a, b; /* what is accepted */
} graphs[] = {
    {"ids and targets",
     ROWS("x", "seven", "begin") LOGITS("five", "5") LOSS("loss", "5", "b", "") END,
     {7, 0},
     {5, 0}},
    {"targets that are ignored",
     ROWS("x", "seven", "begin") LOGITS("five", "5") LOSS("loss", "5", "b", IGNORE("-100")) END,
     {7, 0},
     {5, -100}},
    {"no i32 is ignored",
     ROWS("x", "seven", "begin") LOGITS("five", "5") LOSS("loss", "5", "b", IGNORE("4294967196"))
         END,
     {7, 0},
     {5, 0}},
    {"the smallest of two tables",
     ROWS("y", "seven", "b")
         ROWS("z", "five", "b") "%x : f32[2,3,4] = add %y %z phase forward\n" LOGITS("five", "5")
             LOSS("loss", "5", "end", "") END,
     {5, 0},
     {5, 0}},
    {"ids that are targets, too",
     ROWS("x", "five", "b") LOGITS("seven", "7") LOSS("loss", "7", "b", IGNORE("-100")) END,
     {0, 0},
     {5, 0}},
    {"the ignored target is an id",
     ROWS("x", "seven", "b") LOGITS("five", "5") LOSS("loss", "5", "b", IGNORE("6")) END,
     {0, 0},
     {5, 6}},
    {"two losses",
     ROWS("x", "seven", "begin") LOGITS("five", "5") LOSS("one", "5", "b", IGNORE("-100"))
         LOSS("two", "5", "b", IGNORE("-100")) TWO_LOSSES,
     {7, 0},
     {5, -100}},
    {"two losses that do not ignore the same",
     ROWS("x", "seven", "begin") LOGITS("five", "5") LOSS("one", "5", "b", IGNORE("-100"))
         LOSS("two", "5", "b", IGNORE("-1")) TWO_LOSSES,
     {7, 0},
     {5, 0}},
    {"the ignored target is an id, read later",
     ROWS("x", "seven", "begin") LOGITS("five", "5") LOSS("one", "5", "b", IGNORE("6"))
         ROWS("y", "seven", "b") "%more : f32[2,3,5] = linear %y %five { transpose_weight = 1 } "
                                 "phase forward\n"
                                 "%two : f32[], %two.1 : f32[2,3,1] = cross_entropy %more %end "
                                 "phase loss\n" TWO_LOSSES,
     {0, 0},
     {5, 6}},
    {"the loss with its linear",
     ROWS("x", "seven", "begin") "%loss : f32[], %dx : f32[2,3,4], %dw : f32[5,4], %db : f32[5] = "
                                 "linear_cross_entropy %x "
                                 "%five %b { rows = 3, transpose_weight = 1, ignore_index = -100 } "
                                 "phase loss\n" END,
     {7, 0},
     {5, -100}},
    {"rows and columns of padding",
     "parameter %padded : f32[9,4] = normal(0.0, 0.02) frozen unpadded 6\n" ROWS("x", "padded",
                                                                                 "begin")
         LOGITS("padded", "9") LOSS("loss", "9", "b", "{ classes = 4, ignore_index = -100 }") END,
     {6, 0},
     {4, -100}},
    {"the gradient of a table",
     ROWS("x", "five", "begin") LOGITS("five", "5") LOSS(
         "loss", "5", "end",
         "") "%g : f32[9,4] gradient = embedding_backward %x %b { rows = 9 } phase backward\n" END,
     {5, 0},
     {9, 0}},
    {"a sum into a table",
     "state %sum : f32[9,4] = constant(0)\n" ROWS("x", "five", "begin") LOGITS("five", "5")
         LOSS("loss", "5", "end",
              "") "%next : f32[9,4] state = embedding_accumulate %sum %x %b phase backward\n" END
                  "update %sum = %next\n",
     {5, 0},
     {9, 0}},
    {"parts: each element is an id or a target",
     ROWS("x", "seven", "begin") LOGITS("seven", "7") LOSS("loss", "7", "end", IGNORE("-100")) END,
     {7, -100},
     {0, 0}},
    {"parts: the other way round",
     ROWS("x", "seven", "end") LOGITS("seven", "7") LOSS("loss", "7", "begin", IGNORE("-100")) END,
     {7, -100},
     {0, 0}},
    {"parts that do not ignore the same",
     ROWS("x", "seven", "b") LOGITS("seven", "7") LOSS("one", "7", "begin", IGNORE("-100"))
         LOSS("two", "7", "end", IGNORE("-1")) TWO_LOSSES,
     {0, 0},
     {7, 0}},
    {"parts with different bounds",
     ROWS("x", "seven", "begin") LOGITS("five", "5") LOSS("loss", "5", "end", "") END,
     {0, 0},
     {0, 0}},
    {"views",
     "%flat : i32[6] = reshape %b { shape = [6] } phase forward\n"
     "%y : f32[6,4] = embedding %seven %flat phase forward\n"
     "%x : f32[2,3,4] = reshape %y { shape = [2, 3, 4] } phase forward\n" LOGITS("five", "5")
         LOSS("loss", "5", "end", "") END,
     {5, 0},
     {7, 0}},
    {"a reader to whom they are numbers",
     ROWS("x", "seven", "b") LOGITS("five", "5")
         LOSS("one", "5", "end",
              "") "%three : f32[] = constant { value = 3.0 } phase loss\n"
                  "%is : f32[2,3] = equal %b %three phase loss\n"
                  "%row : f32[1,6] = reshape %is { shape = [1, 6] } phase loss\n"
                  "%sum : f32[1,1] = row_sum %row phase loss\n"
                  "%two : f32[] = reshape %sum { shape = [] } phase loss\n" TWO_LOSSES,
     {5, 0},
     {0, 0}},
    {"a reader that nobody needs",
     ROWS("x", "seven", "b") ROWS(
         "unread", "five", "b") "%three : f32[] = constant { value = 3.0 } phase loss\n"
                                "%is : f32[2,3] = equal %b %three phase loss\n" LOGITS("five", "5")
                                    LOSS("loss", "5", "end", "") END,
     {5, 0},
     {7, 0}},
};

static void check_tensor(const char *graph, const remat_plan *plan, const char *name,
                         struct remat_indices expected)
{
    remat_tensor_info info = {.struct_size = sizeof info};
    bool found = remat_plan_get_tensor(plan, remat_plan_find_tensor(plan, name), &info);
    CHECK(found && info.index_bound == expected.bound && info.index_ignored == expected.ignored,
          "%s: \"%s\" accepts [0, %u) and %d, expected [0, %u) and %d", graph, name,
          info.index_bound, info.index_ignored, expected.bound, expected.ignored);
}

static void check_graphs(void)
{
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        remat_context *ctx = remat_context_create(NULL, NULL);
        const struct remat_policy_settings policy = {0};
        struct remat_arena arena;
        struct remat_graph *graph;
        struct remat_program *program;
        remat_arena_init(&arena, ctx);
        const char *text = remat_arena_format(&arena, "%s%s", HEAD, graphs[i].text);
        MUST_OK(ctx, remat_graph_parse(ctx, graphs[i].name, text, strlen(text), &arena, &graph));
        MUST_OK(ctx, harness_compile(ctx, &arena, graph, NULL, &policy, 0, &program));
        struct remat_plan plan = borrowed_plan(program);
        check_tensor(graphs[i].name, &plan, "a", graphs[i].a);
        check_tensor(graphs[i].name, &plan, "b", graphs[i].b);
        remat_arena_release(&arena);
        remat_context_destroy(&ctx);
    }
}

/* --- what a session accepts --- */

#define VOCAB 251
#define BATCH 4
#define SEQ   8

static const struct subject {
    const char *name, *preset;
    remat_dtype dtype;
    uint32_t microbatches, loss_chunk;
    int32_t ignored; /* of the targets; 0: none */
} subjects[] = {
    {"fp32", "gpt2-tiny", REMAT_F32, 1, 0, 0},
    {"microbatches, the loss in chunks", "gpt2-tiny", REMAT_F32, 2, 8, 0},
    {"bf16, microbatches", "llama-tiny", REMAT_BF16, 4, 0, 0},
    {"an ignored target", "bert-tiny", REMAT_F32, 1, 0, -100},
    {"an ignored target, microbatches, in chunks, bf16", "bert-tiny", REMAT_BF16, 2, 4, -100},
    {"a source", "encdec-tiny", REMAT_F32, 2, 0, 0},
};

struct run {
    const struct subject *subject;
    remat_context *ctx;
    remat_session *session;
    const struct remat_plan *plan;
    remat_tensor_info tensor; /* in hand */
    int32_t ignored;          /* in it */
    int32_t valid[BATCH * SEQ];
};

static bool select_tensor(struct run *r, const char *name)
{
    bool targets = strcmp(name, "targets") == 0;
    r->tensor = (remat_tensor_info){.struct_size = sizeof r->tensor};
    r->ignored = targets ? r->subject->ignored : 0;
    if (!remat_plan_get_tensor(r->plan, remat_plan_find_tensor(r->plan, name), &r->tensor))
        return false;
    check_tensor(r->subject->name, r->plan, name, (struct remat_indices){VOCAB, r->ignored});
    CHECK(r->tensor.bytes == sizeof r->valid, "%s: \"%s\" has %" PRIu64 " bytes", r->subject->name,
          name, r->tensor.bytes);
    return r->tensor.bytes == sizeof r->valid;
}

static remat_status write(struct run *r, const int32_t *ids, uint32_t begin, uint32_t end)
{
    const char *name = r->tensor.name;
    if (begin == 0 && end == BATCH * SEQ)
        return remat_session_write(r->session, name, ids, sizeof r->valid);
    return remat_session_write_part(r->session, name, 4 * begin, ids + begin, 4 * (end - begin));
}

static void check_contents(struct run *r, const int32_t *expected, const char *what)
{
    int32_t got[BATCH * SEQ];
    MUST_OK(r->ctx, remat_session_read(r->session, r->tensor.name, got, sizeof got));
    CHECK(memcmp(got, expected, sizeof got) == 0, "%s: %s of \"%s\"", r->subject->name, what,
          r->tensor.name);
}

/* Writes elements [begin, end), one of which is `id`. */
static void check_element(struct run *r, uint32_t begin, uint32_t end, uint32_t at, int32_t id)
{
    int32_t ids[BATCH * SEQ];
    char expected[128], ignored[16] = "";
    memcpy(ids, r->valid, sizeof ids);
    ids[at] = id;
    remat_status st = write(r, ids, begin, end);
    if ((id >= 0 && id < VOCAB) || (r->ignored && id == r->ignored)) {
        CHECK(st == REMAT_OK, "%s: \"%s\": %d is refused", r->subject->name, r->tensor.name, id);
        check_contents(r, ids, "what was written");
        MUST_OK(r->ctx, write(r, r->valid, 0, BATCH * SEQ));
        return;
    }
    if (r->ignored)
        snprintf(ignored, sizeof ignored, " and %d", r->ignored);
    snprintf(expected, sizeof expected, "tensor \"%s\": element %u is %d, accepted: 0 to %d%s",
             r->tensor.name, at, id, VOCAB - 1, ignored);
    CHECK(st == REMAT_ERROR_INVALID && strcmp(remat_context_message(r->ctx), expected) == 0,
          "%s: expected \"%s\", got %d \"%s\"", r->subject->name, expected, st,
          st ? remat_context_message(r->ctx) : "");
    check_contents(r, r->valid, "what was there");
}

static void check_writes(struct run *r)
{
    static const int32_t ids[] = {0,   VOCAB - 1, -1,        VOCAB,     -100,
                                  -99, -101,      INT32_MIN, INT32_MAX, VOCAB + 256};
    static const struct {
        uint32_t begin, end;
    } parts[] = {{0, BATCH * SEQ}, {0, 1}, {BATCH * SEQ - 1, BATCH * SEQ}, {5, 19}};
    MUST_OK(r->ctx, remat_session_read(r->session, r->tensor.name, r->valid, sizeof r->valid));
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            check_element(r, parts[p].begin, parts[p].end, parts[p].begin, ids[i]);
            check_element(r, parts[p].begin, parts[p].end, parts[p].end - 1, ids[i]);
        }
    for (uint64_t begin = 0; begin < 3; begin += 2)
        CHECK_STATUS(r->ctx,
                     remat_session_write_part(r->session, r->tensor.name, begin, ids, 6 - begin),
                     REMAT_ERROR_USAGE, "no whole elements", "%s", r->subject->name);
    check_contents(r, r->valid, "what was there");
}

static float train(struct run *r)
{
    float loss;
    MUST_OK(r->ctx, remat_session_run(r->session, "train"));
    MUST_OK(r->ctx, remat_session_read(r->session, "loss", &loss, sizeof loss));
    return loss;
}

/* Written past the session. */
static remat_status poke(struct run *r, char *memory, const char *name, uint32_t at, int32_t id)
{
    const struct remat_program *program = r->plan->program;
    const struct remat_tensor *tensor = &program->tensors[remat_plan_find_tensor(r->plan, name)];
    uint64_t offset = program->buffers[program->values[tensor->value].buffer].offset_bytes;
    memcpy(memory + offset + 4 * at, &id, sizeof id);
    return remat_session_run(r->session, "train");
}

static void check_session(struct run *r)
{
    static const char *const inputs[] = {"tokens", "targets", "source"};
    remat_session_params params;
    remat_session_params_init(&params);
    params.threads = 1;
    MUST_OK(r->ctx, remat_session_memory_bytes(r->ctx, r->plan, &params, &params.memory_bytes));
    params.memory = aligned_alloc(256, (params.memory_bytes + 255) / 256 * 256);
    MUST_OK(r->ctx, remat_session_create(r->ctx, r->plan, &params, &r->session));
    MUST_OK(r->ctx, remat_session_run(r->session, "init"));
    harness_write_inputs(r->ctx, r->session, r->plan, 0, 0);
    uint32_t checked = 0;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (select_tensor(r, inputs[i])) {
            check_writes(r);
            checked++;
        }
    CHECK(checked == (strcmp(r->subject->name, "a source") == 0 ? 3 : 2), "%s: %u inputs",
          r->subject->name, checked);
    CHECK(isfinite(train(r)), "%s: the loss", r->subject->name);
    if (r->subject->ignored)
        MUST_OK(r->ctx, poke(r, params.memory, "targets", 3, r->subject->ignored));
    CHECK(isfinite(train(r)), "%s: the loss of one target less", r->subject->name);
    MUST_OK(r->ctx, poke(r, params.memory, "targets", 3, VOCAB));
    CHECK(isinf(train(r)), "%s: the loss of no class", r->subject->name);
    CHECK_STATUS(r->ctx, poke(r, params.memory, "tokens", 3, VOCAB), REMAT_ERROR_INVALID,
                 "id 251 at position 3", "%s", r->subject->name);
    remat_session_destroy(&r->session);
    free(params.memory);
}

int main(void)
{
    check_graphs();
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        const struct subject *s = &subjects[i];
        const struct remat_policy_settings policy = {0};
        struct run r = {.subject = s, .ctx = remat_context_create(NULL, NULL)};
        struct remat_arena arena;
        struct remat_program *program;
        remat_arena_init(&arena, r.ctx);
        struct remat_graph *graph =
            harness_model(r.ctx, &arena, s->preset,
                          (struct remat_model_settings){.layers = 1,
                                                        .vocab = VOCAB,
                                                        .batch = BATCH / s->microbatches,
                                                        .seq = SEQ,
                                                        .dtype = s->dtype});
        const struct remat_pass_settings passes = {.microbatches = s->microbatches,
                                                   .loss_chunk = s->loss_chunk};
        MUST_OK(r.ctx, harness_compile(r.ctx, &arena, graph, &passes, &policy, 0, &program));
        struct remat_plan plan = borrowed_plan(program);
        r.plan = &plan;
        check_session(&r);
        remat_arena_release(&arena);
        remat_context_destroy(&r.ctx);
    }
    return check_exit();
}

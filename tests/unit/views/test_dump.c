/* SPDX-License-Identifier: Apache-2.0 */
/* The views of a plan made by hand: what they say, as text and as JSON. */
#include "check.h"
#include "dump.h"
#include "plans.h"
#include "views.h"
#include "why.h"

#include <stdio.h>
#include <stdlib.h>

static remat_context *ctx;

static const char *show(struct remat_arena *arena, const struct remat_program *program,
                        dump_text_view view)
{
    struct remat_text text = {.arena = arena};
    remat_status st = view(ctx, arena, program, &(struct dump_asked){0}, &text);
    CHECK(st == REMAT_OK && !text.failed, "%s", remat_context_message(ctx));
    return text.items ? text.items : "";
}

static json_t *show_json(struct remat_arena *arena, const struct remat_program *program,
                         dump_json_view view)
{
    struct dump_json json = {.object = json_object()};
    remat_status st = view(ctx, arena, program, &(struct dump_asked){0}, &json);
    CHECK(st == REMAT_OK && !json.failed, "%s", remat_context_message(ctx));
    return json.object;
}

static void check_holds(const char *text, const char *part)
{
    CHECK(strstr(text, part) != NULL, "\"%s\" is missing in:\n%s", part, text);
}

static uint32_t count_lines(const char *text)
{
    uint32_t lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static json_int_t integer(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    CHECK(json_is_integer(value), "%s is not an integer", key);
    return json_integer_value(value);
}

static const char *string(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    CHECK(value != NULL, "%s is not a string", key);
    return value ? value : "";
}

static void test_summary(struct remat_arena *arena, const struct remat_program *program)
{
    const char *text = show(arena, program, dump_summary_text);
    CHECK(count_lines(text) <= 60, "%u lines", count_lines(text));
    check_holds(text, "plan        small for cpu, by remat test\n");
    check_holds(text, "policy      full-block-1\n");
    check_holds(text, "recomputed  2 of 6 values, 1 of them inline; layers 0 of 2\n");
    check_holds(text, "budget      4,096 B (4.00 KiB)\n");
    check_holds(text, "which leaves 3,072 B (3.00 KiB)\n");
    check_holds(text, "live peak   1,536 B (1.50 KiB) at command 4 \"h.0.act\" (backward)");
    check_holds(text, "overhead 13.2 %\n");
    check_holds(text, "numerics fedcba9876543210\n");
    check_holds(text, "settings    --budget 4KiB --hash\n");
    check_holds(text, "note        made by hand\n");
    check_holds(text,
                "megatron    nearest: --recompute-num-layers 1; 9.46 us a step, 10.00 % slower\n");
    check_holds(text, "recompute                     1    1.00 us\n");
    check_holds(text, "activations kept          256 B\n");
}

static void test_summary_json(struct remat_arena *arena, const struct remat_program *program)
{
    json_t *json = show_json(arena, program, dump_summary_json);
    CHECK(strcmp(string(json, "numerics_hash"), "fedcba9876543210") == 0, "numerics_hash");
    CHECK(strcmp(string(json, "graph_hash"), "0000000000000123") == 0, "graph_hash");
    CHECK(strcmp(string(json, "policy"), "full-block-1") == 0, "policy");
    static const struct {
        const char *key;
        json_int_t value;
    } rows[] = {{"layers", 2},
                {"budget_bytes", 4096},
                {"reserve_bytes", 1024},
                {"arena_bytes", 1792},
                {"peak_bytes", 1536},
                {"static_bytes", 768},
                {"step_ns", 8600},
                {"base_step_ns", 7600},
                {"recomputed", 2},
                {"recomputed_fused", 1},
                {"recomputed_nested", 0},
                {"commands", 8},
                {"kernels", 3},
                {"buffers", 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(integer(json, rows[i].key) == rows[i].value, "%s: %lld", rows[i].key,
              (long long)integer(json, rows[i].key));
    const json_t *manual = json_array_get(json_object_get(json, "manuals"), 0);
    CHECK(json_integer_value(json_object_get(manual, "step_ns")) == 9460, "manuals");
    const json_t *layers = json_object_get(json, "recomputed_layers");
    CHECK(json_array_size(layers) == 1 && json_integer_value(json_array_get(layers, 0)) == 0,
          "recomputed_layers");
    json_decref(json);
}

/* Large integers must not pass through doubles. */
static void test_large_integers(struct remat_arena *arena, const struct remat_program *program)
{
    struct remat_program large = *program;
    large.budget_bytes = INT64_MAX;
    large.step_ns = (UINT64_C(1) << 53) + 1;
    json_t *json = show_json(arena, &large, dump_summary_json);
    char *text = json_dumps(json, 0);
    check_holds(text, "9223372036854775807");
    check_holds(text, "9007199254740993");
    free(text);
    json_decref(json);
}

static void test_decisions(struct remat_arena *arena, const struct remat_program *program)
{
    const char *text = show(arena, program, dump_decisions_text);
    check_holds(text, "4 values saved: 4.61 kB; 1 recomputed: 256 B, in 1.00 us; 1 recomputed "
                      "inline: 128 B\n");
    check_holds(text, "save             h.*.mid 1,10   linear bf16[64]   128 B       - "
                      "policy\n");
    check_holds(text, "recompute inline h.*.mid 0      linear bf16[64]   128 B       - "
                      "planner\n");
    check_holds(text, "recompute        h.*.act 0      linear f32[8,8]   256 B 1.00 us "
                      "policy\n");
    check_holds(text, "save             logits  -      -      -        4.10 kB       - "
                      "pin --save \"log*\"");
    CHECK(!strstr(text, program->policy), "the policy shows in its decisions");
    json_t *json = show_json(arena, program, dump_decisions_json);
    const json_t *decisions = json_object_get(json, "decisions");
    const json_t *first = json_array_get(decisions, 0), *last = json_array_get(decisions, 5);
    CHECK(json_array_size(decisions) == 6, "%zu decisions", json_array_size(decisions));
    CHECK(strcmp(string(first, "action"), "recompute") == 0, "action");
    CHECK(integer(first, "recompute_extra_ns") == 900, "recompute_extra_ns");
    CHECK(json_is_null(json_object_get(last, "recompute_extra_ns")), "not recomputable");
    CHECK(integer(first, "recompute_ns") == 1000 && integer(first, "layer") == 0, "first");
    CHECK(integer(last, "layer") == -1 && integer(last, "bytes") == 4096, "last");
    CHECK(strcmp(string(first, "dtype"), "f32") == 0 && strcmp(string(last, "op"), "") == 0,
          "type");
    CHECK(json_array_size(json_object_get(first, "shape")) == 2, "shape");
    json_decref(json);
}

static void test_memory(struct remat_arena *arena, const struct remat_program *program)
{
    const char *text = show(arena, program, dump_memory_text);
    check_holds(text, "gradients"); /* the legend; none live at the peak */
    check_holds(text, "live peak 1,536 B (1.50 KiB)\n  at command 4 \"h.0.act\" (backward)\n");
    check_holds(text, "     256 B      1    +2.00 us          2-4  K  1          h.1.act\n");
    check_holds(text, "     256 B      1      in use          4-6  R  0          h.0.act #1\n");
    check_holds(text, "     256 B      1  persistent            -  P  -          h.0.w\n");
    check_holds(text, "     phase  fflrbbo\n");
    check_holds(text, "      peak     ^\n");
    check_holds(text, "     768 B  tt.RRR.\n");
    check_holds(text, "   1.02 kB  .KKK...\n");
    json_t *json = show_json(arena, program, dump_memory_json);
    const json_t *classes = json_object_get(json, "classes_at_peak");
    CHECK(integer(classes, "parameters") == 256, "parameters at the peak");
    CHECK(integer(classes, "inputs and outputs") == 512, "inputs at the peak");
    CHECK(json_array_size(json_object_get(json, "residents_at_peak")) == 6, "residents");
    const json_t *buffers = json_object_get(json, "buffers"), *kept = json_array_get(buffers, 4);
    CHECK(json_array_size(buffers) == 8, "buffers");
    CHECK(strcmp(string(kept, "name"), "h.1.act") == 0 && integer(kept, "layer") == 1 &&
              strcmp(string(kept, "op"), "linear") == 0 &&
              strcmp(string(kept, "class"), "activations kept") == 0,
          "what a buffer holds");
    json_decref(json);

    struct remat_text csv = {.arena = arena};
    CHECK_OK(ctx, dump_memory_csv(ctx, arena, program, NULL, &csv));
    check_holds(csv.items, "id,lower,upper,size,offset,name,layer,op,class\n"
                           "0,0,8,256,0,h.0.w,0,,parameters\n");
    check_holds(csv.items, "\n4,2,5,256,1024,h.1.act,1,linear,activations kept\n");
    check_holds(csv.items, "\n5,3,8,4,1280,loss,,square/f32,inputs and outputs\n");
    check_holds(csv.items, "\n6,4,7,256,768,h.0.act,0,embedding,recomputed\n");
}

static const struct dump_asked *value_named(const char *glob)
{
    static const char *globs[1];
    static struct dump_asked asked = {.globs = globs, .glob_count = 1};
    globs[0] = glob;
    return &asked;
}

/* At the peak h.0.act is recomputed for commands 5 and 6, and h.1.act lives no more. */
static void test_why(struct remat_arena *arena, const struct remat_program *program)
{
    struct remat_text text = {.arena = arena};
    CHECK_OK(ctx, dump_why_text(ctx, arena, program, value_named("h.0.*"), &text));
    check_holds(text.items, "binding command 4 \"h.0.act\" (backward), live 1,536 B (1.50 KiB)\n");
    check_holds(text.items,
                "\nh.0.act: 256 B, recompute (policy)\n"
                "  saved       256 B at the binding command; lives from command 1 to 5\n"
                "  recomputed  256 B at the binding command; +900 ns a step, estimated\n");
    check_holds(text.items,
                "\nh.0.mid: 128 B, recompute inline (planner)\n"
                "  saved       0 B at the binding command; lives from command 1 to 3\n"
                "  recomputed  0 B at the binding command; -150 ns a step, estimated\n"
                "  shard       0 B at the binding command; sliced and gathered in 40 ns a step\n");
    CHECK(!strstr(text.items, "h.1"), "%s", text.items);
    struct remat_program exact = *program;
    exact.exact_extras = true;
    text = (struct remat_text){.arena = arena};
    CHECK_OK(ctx, dump_why_text(ctx, arena, &exact, value_named("h.0.act"), &text));
    check_holds(text.items, "  recomputed  256 B at the binding command; +900 ns a step\n");
    text = (struct remat_text){.arena = arena};
    CHECK_OK(ctx, dump_why_text(ctx, arena, program, value_named("logits"), &text));
    check_holds(text.items, "  recomputed  not possible\n");
    CHECK_STATUS(ctx, dump_why_text(ctx, arena, program, value_named("h.3.act"), &text),
                 REMAT_ERROR_USAGE, "");
    struct dump_json json = {.object = json_object()};
    CHECK(dump_why_json(ctx, arena, program, value_named("h.1.mid"), &json) == REMAT_OK &&
              !json.failed,
          "h.1.mid");
    CHECK(json_is_false(json_object_get(json.object, "exact")), "exact");
    const json_t *why = json_object_get(json.object, "why"), *first = json_array_get(why, 0);
    CHECK(json_array_size(why) == 1, "%zu values", json_array_size(why));
    CHECK(integer(first, "peak_bytes_saved") == 256, "padded");
    CHECK(integer(first, "peak_bytes_recomputed") == 0, "recomputed");
    CHECK(integer(first, "recompute_extra_ns") == 300, "extra");
    CHECK(integer(first, "peak_bytes_shard") == 256, "padded, and where the value is when saved");
    CHECK(integer(first, "shard_ns") == 40, "shard");
    json_decref(json.object);
}

static const char *at(struct remat_arena *arena, const struct remat_program *program,
                      const char *command, const char *segment)
{
    struct remat_text text = {.arena = arena};
    const struct dump_asked asked = {.command = command, .segment = segment};
    return dump_at_text(ctx, arena, program, &asked, &text) == REMAT_OK
               ? text.items
               : remat_context_message(ctx);
}

static void test_at(struct remat_arena *arena, const struct remat_program *program)
{
    const char *text = at(arena, program, "h.0.act #1", NULL);
    check_holds(text, "command 4 \"h.0.act #1\" (backward) of segment step\n"
                      "live       1,536 B (1.50 KiB)\n"
                      "to peak    0 B; the peak is at command 4\n"
                      "to budget  1,536 B (1.50 KiB); budget - reserve is 3,072 B\n");
    check_holds(text, "\nh.0.act #1  0       R        256     768       4-6  recompute\n");
    check_holds(text, "\nh.1.act     1       K        256   1,024       2-4  save\n");
    CHECK(strcmp(text, at(arena, program, "4", NULL)) == 0, "by number: %s",
          at(arena, program, "4", NULL));
    check_holds(at(arena, program, "h.0.act", NULL), "command 1 ");
    check_holds(at(arena, program, "h.0.act #2", NULL), "no command has that name; ");
    check_holds(at(arena, program, "act", NULL), "near: 1 h.0.act, 2 h.1.act, 4 h.0.act #1");
    check_holds(at(arena, program, "h.0.act", "init"), "no command has that name; --schedule");
    check_holds(at(arena, program, "1", "init"), "--at 1: segment init has commands 0 to 0");
    check_holds(at(arena, program, "8", NULL), "--at 8: the plan has 8 commands");

    struct remat_program twins = *program;
    struct remat_command commands[8];
    memcpy(commands, program->commands, sizeof commands);
    commands[2].name = commands[1].name;
    twins.commands = commands;
    check_holds(at(arena, &twins, "h.0.act", NULL),
                "--at \"h.0.act\": several commands have that name: 1 h.0.act, 2 h.0.act; give a "
                "number");
}

static void test_schedule(struct remat_arena *arena, const struct remat_program *program)
{
    const char *text = show(arena, program, dump_schedule_text);
    CHECK(strncmp(text, "segment step, 7 commands\n", 25) == 0, "the step comes first:\n%s", text);
    check_holds(text, "\n\nsegment init, 1 commands\n");
    check_holds(text, "    4  backward  embedding             1.00 us    1.54 kB  h.0.act #1\n");
    json_t *json = show_json(arena, program, dump_schedule_json);
    const json_t *commands = json_object_get(json, "schedule");
    CHECK(json_array_size(commands) == 8, "%zu commands", json_array_size(commands));
    const json_t *again = json_array_get(commands, 4);
    CHECK(strcmp(string(again, "segment"), "step") == 0, "segment");
    CHECK(integer(again, "instance") == 1 && integer(again, "live_bytes") == 1536, "command 4");
    const json_t *written = json_array_get(json_object_get(again, "operands"), 2);
    CHECK(strcmp(string(written, "access"), "write") == 0, "access");
    json_decref(json);
}

static void test_segment(struct remat_arena *arena, const struct remat_program *program)
{
    struct remat_text text = {.arena = arena};
    struct dump_json json = {.object = json_object()};
    CHECK_OK(ctx, dump_schedule_text(ctx, arena, program, &(struct dump_asked){.segment = "init"},
                                     &text));
    CHECK(count_lines(text.items) == 3, "%s", text.items);
    CHECK_OK(ctx, dump_schedule_json(ctx, arena, program, &(struct dump_asked){.segment = "init"},
                                     &json));
    const json_t *commands = json_object_get(json.object, "schedule");
    CHECK(json_array_size(commands) == 1, "%zu commands", json_array_size(commands));
    CHECK(strcmp(string(json_array_get(commands, 0), "segment"), "init") == 0, "segment");
    json_decref(json.object);
    CHECK_STATUS(
        ctx,
        dump_schedule_text(ctx, arena, program, &(struct dump_asked){.segment = "forward"}, &text),
        REMAT_ERROR_USAGE, "--segment 'forward': the plan has step, init");
}

/* Operand 0 of the plan by hand is taken for the number of a run. */
static void test_numbers(struct remat_arena *arena, const struct remat_program *small)
{
    struct remat_program program = *small;
    struct remat_call calls[] = {small->calls[0], small->calls[1], {1, 4, 3}};
    struct remat_entry entries[] = {small->entries[0], {"train", 1, 3}};
    struct remat_tensor number = {.value =
                                      program.operands[program.commands[1].operand_begin].value};
    program.calls = calls;
    program.entries = entries;
    program.call_count = 3;
    program.tensors = &number;
    program.number_tensor = 0;
    check_holds(show(arena, &program, dump_schedule_text),
                "segment step, 7 commands; runs 0 to 0 of train, runs 3 to 6 of train\n");
    json_t *json = show_json(arena, &program, dump_schedule_json);
    const json_t *listed = json_object_get(json, "calls");
    const json_t *last = json_array_get(listed, json_array_size(listed) - 1);
    CHECK(strcmp(string(last, "entry"), "train") == 0, "entry");
    CHECK(strcmp(string(last, "segment"), "step") == 0, "segment");
    CHECK(integer(last, "first_run") == 3 && integer(last, "times") == 4, "runs");
    json_decref(json);
}

static void test_kernels(struct remat_arena *arena, const struct remat_program *program)
{
    const char *text = show(arena, program, dump_kernels_text);
    check_holds(text, "square/f32: program, 5 uses, 6.60 us\n    ");
    check_holds(text, "mul r0 r0\n");
    check_holds(text, "\nembedding: embedding, 2 uses, 2.00 us\nfill: fill, 1 use, 10 ns\n");
    json_t *json = show_json(arena, program, dump_kernels_json);
    const json_t *first = json_array_get(json_object_get(json, "kernels"), 0);
    CHECK(json_array_size(json_object_get(first, "instructions")) == 3, "instructions");
    json_decref(json);
}

/* A plan without commands has no peak and no timeline, and nothing to divide by. */
static void test_empty(struct remat_arena *arena)
{
    struct remat_program empty = {.producer = "",
                                  .graph_name = "",
                                  .target = "",
                                  .policy = "none",
                                  .number_tensor = REMAT_NONE};
    static const dump_text_view texts[] = {dump_summary_text, dump_decisions_text,
                                           dump_memory_text,  dump_schedule_text,
                                           dump_kernels_text, dump_placement_text};
    static const dump_json_view jsons[] = {dump_summary_json, dump_decisions_json,
                                           dump_memory_json,  dump_schedule_json,
                                           dump_kernels_json, dump_placement_json};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        CHECK(!strstr(show(arena, &empty, texts[i]), "nan"), "view %zu", i);
        json_decref(show_json(arena, &empty, jsons[i]));
    }
}

static void test_ranges(struct remat_arena *arena)
{
    static const uint32_t items[] = {0, 1, 2, 4, 6, 7};
    CHECK(strcmp(dump_ranges(arena, items, 6), "0-2,4,6-7") == 0, "ranges");
    CHECK(strcmp(dump_ranges(arena, items, 1), "0") == 0, "one");
    CHECK(strcmp(dump_ranges(arena, items, 0), "none") == 0, "none");
}

int main(void)
{
    struct remat_arena arena;
    ctx = remat_context_create(NULL, NULL);
    remat_arena_init(&arena, ctx);
    const struct remat_program *program = make_small_plan(&arena);
    if (CHECK(program)) {
        test_summary(&arena, program);
        test_summary_json(&arena, program);
        test_large_integers(&arena, program);
        test_decisions(&arena, program);
        test_memory(&arena, program);
        test_why(&arena, program);
        test_at(&arena, program);
        test_schedule(&arena, program);
        test_numbers(&arena, program);
        test_segment(&arena, program);
        test_kernels(&arena, program);
        test_empty(&arena);
        test_ranges(&arena);
    }
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}

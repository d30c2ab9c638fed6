/* SPDX-License-Identifier: Apache-2.0 */
/* The text form: print and parse are inverses; refusals have their messages; mutated and truncated
 * text is refused or read, never more. */
#include "check.h"
#include "graph_text.h"
#include "models.h"
#include "ops.h"
#include "view.h"

#include <math.h>
#include <stdlib.h>

static remat_context *ctx;

static const char *print(struct remat_arena *arena, const struct remat_graph *graph)
{
    struct remat_text text = {.arena = arena};
    remat_graph_print(graph, &text);
    return text.items ? text.items : "";
}

/* From a copy of exact size, so that a sanitizer sees reads past the end. */
static remat_status parse(struct remat_arena *arena, const char *text, size_t bytes,
                          struct remat_graph **out)
{
    char *exact = malloc(bytes ? bytes : 1);
    if (!exact)
        return REMAT_ERROR_MEMORY;
    memcpy(exact, text, bytes);
    remat_status st = remat_graph_parse(ctx, "t", exact, bytes, arena, out);
    free(exact);
    return st;
}

static struct remat_graph *generate(struct remat_arena *arena, const char *preset)
{
    struct remat_model_settings settings;
    struct remat_graph *graph = NULL;
    remat_status st = remat_model_preset(ctx, preset, &settings);
    if (st == REMAT_OK)
        st = remat_model_generate_symbolic(ctx, arena, &settings, &graph);
    CHECK_OK(ctx, st, "%s", preset);
    return graph;
}

static void test_models(struct remat_arena *arena)
{
    static const char *const presets[] = {"mlp-tiny", "gpt2-tiny", "gpt2-124m", "gpt2-1558m",
                                          "encdec-tiny"};
    for (size_t k = 0; k < sizeof presets / sizeof presets[0]; k++) {
        struct remat_graph *graph = generate(arena, presets[k]), *again = NULL;
        if (!graph)
            continue;
        const char *text = print(arena, graph);
        CHECK_OK(ctx, parse(arena, text, strlen(text), &again), "%s", presets[k]);
        if (!again)
            continue;
        CHECK(strcmp(print(arena, again), text) == 0, "%s: text differs", presets[k]);
        CHECK(remat_graph_hash(again) == remat_graph_hash(graph), "%s: hash", presets[k]);
        CHECK(remat_graph_layers(again) == remat_graph_layers(graph), "%s: layers", presets[k]);
    }
}

/* Written as the printer writes, so that it comes back as it is. */
static const char corner_cases[] =
    "graph \"a \\\"quoted\\\" \\\\ name\\x0a\"\n"
    "optimizer adamw { beta1 = 0.0, beta2 = 0.9999999999999999, epsilon = 5e-324, "
    "weight_decay = 1e+06 } no_master bf16_moments\n"
    "\n"
    "input %\"blank name\" : f32[2,3]\n"
    "parameter %w.0/x-y_z : f32[3] = normal(-0.0, 0.1) no_decay unpadded 2 pin save\n"
    "constant %k : f32[2,3] whole(tp) = [0.0, -0.0, inf, -inf, 1e-45, 0.1]\n"
    "constant %one : i32[] = [-2147483648] pin save\n"
    "constant %given : f32[3]\n"
    "parameter %frozen : f32[3] split(tp, 0, 3) = constant(0.30000000000000004) frozen\n"
    "\n"
    "%\"\xc3\xa4\\\"\" : f32[2,3] split(tp, 1) pin recompute = add %\"blank name\" %w.0/x-y_z "
    "phase forward "
    "scope \"h.3/\\\"odd\\\" scope\"\n"
    "input %late : i32[1,1,1,1,1,1]\n"
    "%a : f32[2,3] whole(tp) gradient = mul %\"\xc3\xa4\\\"\" %frozen phase backward origin gelu "
    "group 7\n"
    "%a@1 : f32[2,3] = mul %\"\xc3\xa4\\\"\" %frozen phase backward\n"
    "%a@2147483647 : f32[2,3] = neg %a@1 phase backward\n"
    "%s : f32[] = constant { value = -1.5e-45 } phase loss\n"
    "input %kv : f32[1,2,1,4]\n"
    "input %segments : i32[1,2]\n"
    "%o : f32[1,2,1,4], %o.1 : f32[1,1,2] = attention %kv %kv %kv key_segments = %segments "
    "{ scale = 0.5 } phase forward\n"
    "%r : f32[6] = reshape %a { shape = [6] } phase forward\n"
    "\n"
    "output %s\n"
    "output %a\n"
    "config \"{\\\"key\\\": \\\"\\\\u00e9 \xc3\xa9\\\"}\"\n"
    "plan_only \"type is \\\"yarn\\\"\"\n";

static void test_corner_cases(struct remat_arena *arena)
{
    struct remat_graph *graph = NULL;
    CHECK_OK(ctx, parse(arena, corner_cases, strlen(corner_cases), &graph));
    if (!graph)
        return;
    CHECK(strcmp(print(arena, graph), corner_cases) == 0, "comes back as:\n%s",
          print(arena, graph));
    CHECK(graph->nodes[1].origin_group == 7 && graph->nodes[0].origin_group == 0, "groups");
    CHECK(graph->nodes[2].instance == 1, "instance");
    CHECK(strcmp(graph->config, "{\"key\": \"\\u00e9 \xc3\xa9\"}") == 0, "%s", graph->config);
    CHECK(strcmp(graph->plan_only, "type is \"yarn\"") == 0, "%s", graph->plan_only);
    CHECK(graph->optimizer.epsilon == 5e-324, "a subnormal number");
    CHECK(!graph->values[5].trainable && graph->values[1].trainable, "trainable");
    CHECK(!graph->values[5].no_decay && graph->values[1].no_decay, "decay");
    CHECK(graph->values[5].unpadded_rows == 0 && graph->values[1].unpadded_rows == 2, "padding");
    const struct remat_stated *stated = graph->values[5].stated;
    CHECK(stated && strcmp(stated->axis, "tp") == 0 && stated->blocks == 3 &&
              stated->dimension == 0,
          "layout");
    const float *data = graph->values[2].data;
    CHECK(data && data[1] == 0 && signbit(data[1]) && data[5] == 0.1f, "data");
    CHECK(!graph->values[4].data && graph->values[4].role == REMAT_ROLE_CONSTANT, "no data");
    CHECK(graph->optimizer.no_master && graph->optimizer.bf16_moments, "states");
}

/* Blanks, comments and line ends that the printer does not write. */
static void test_layout(struct remat_arena *arena)
{
    static const char text[] = "# comment\n\n\t graph\"x\"#tail\r\n\n  input%x:f32[ 2 , 3 ]\r\n"
                               "%y:f32[2,3]=neg%x phase forward\n\n\noutput%y # no line end";
    struct remat_graph *graph = NULL;
    CHECK_OK(ctx, parse(arena, text, strlen(text), &graph));
    CHECK(graph && graph->node_count == 1 && graph->output_count == 1, "layout");
}

/* --- refusals --- */

#define HEAD   "graph \"g\"\n"
#define SOURCE HEAD "input %x : f32[2,3]\n"

static void test_errors(struct remat_arena *arena)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
#include "bad_text.def"
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct remat_graph *graph = NULL;
        remat_status st = parse(arena, rows[k].text, strlen(rows[k].text), &graph);
        CHECK_STATUS(ctx, st, REMAT_ERROR_INVALID, "", "row %zu", k);
        CHECK(st == REMAT_OK || strcmp(remat_context_message(ctx), rows[k].message) == 0,
              "row %zu: %s\n  expected: %s", k, remat_context_message(ctx), rows[k].message);
    }
}

/* --- mutations --- */

/* Kernels follow a chain of views to its end, so its length is limited where it is made. */
static void test_views(struct remat_arena *arena)
{
    for (uint32_t count = REMAT_VIEW_CHAIN_MAX; count <= REMAT_VIEW_CHAIN_MAX + 1; count++) {
        bool fits = count == REMAT_VIEW_CHAIN_MAX;
        struct remat_text text = {.arena = arena};
        struct remat_graph *graph;
        remat_text_append(&text, "graph \"t\"\ninput %%v0 : f32[2,2]\n");
        for (uint32_t v = 0; v < count; v++)
            remat_text_append(&text,
                              "%%v%u : f32[2,2] = transpose %%v%u { permutation = [1,0] } "
                              "phase forward\n",
                              v + 1, v);
        remat_text_append(&text, "output %%v%u\n", count);
        CHECK_STATUS(ctx, parse(arena, text.items, text.count, &graph),
                     fits ? REMAT_OK : REMAT_ERROR_INVALID,
                     fits ? "" : "node \"v65\" (transpose): a chain of more than 64 views");
    }
}

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

static void mutate(char *text, size_t *bytes, uint64_t *seed)
{
    static const char interesting[] = "%@\"\\[]{}(),:=#\n -.0919eE\x01\xff";
    for (uint32_t k = 0, count = 1 + draw(seed, 4); k<count && * bytes> 8; k++) {
        size_t at = draw(seed, (uint32_t)*bytes), length = 1 + draw(seed, 8);
        length = length > *bytes - at ? *bytes - at : length;
        switch (draw(seed, 4)) {
        case 0: /* delete */
            memmove(text + at, text + at + length, *bytes - at - length);
            *bytes -= length;
            break;
        case 1: /* copy from elsewhere */
            memmove(text + at, text + draw(seed, (uint32_t)(*bytes - length + 1)), length);
            break;
        case 2: /* truncate */
            *bytes = draw(seed, 8) ? *bytes : at;
            break;
        default:
            text[at] = interesting[draw(seed, sizeof interesting)];
        }
    }
}

static void test_mutations(struct remat_arena *arena)
{
    uint64_t seed = 1;
    char text[sizeof corner_cases];
    struct remat_arena scratch;
    (void)arena;
    remat_arena_init(&scratch, ctx);
    for (int k = 0; k < 20000; k++) {
        struct remat_graph *graph = NULL;
        size_t bytes = sizeof corner_cases - 1;
        memcpy(text, corner_cases, bytes);
        mutate(text, &bytes, &seed);
        if (parse(&scratch, text, bytes, &graph) == REMAT_OK) {
            const char *printed = print(&scratch, graph);
            CHECK(parse(&scratch, printed, strlen(printed), &graph) == REMAT_OK,
                  "mutation %d: %s\n%s", k, remat_context_message(ctx), printed);
            CHECK(strcmp(print(&scratch, graph), printed) == 0, "mutation %d: text differs", k);
        }
        remat_arena_release(&scratch);
    }
}

int main(void)
{
    struct remat_arena arena;
    MUST(ctx = remat_context_create(NULL, NULL));
    remat_arena_init(&arena, ctx);
    test_models(&arena);
    test_corner_cases(&arena);
    test_layout(&arena);
    test_errors(&arena);
    test_views(&arena);
    test_mutations(&arena);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "layout_cases.h"

#include "borrowed_plan.h"
#include "graph_text.h"
#include "layout.h"
#include "passes.h"
#include "unwind.h"

#include <remat/engine.h>

#include <math.h>
#include <pthread.h>

static const struct remat_pass_settings undivided;

enum { RANKS_MAX = 4 };

/* h [4, 16] is split by columns, its transpose by rows; sum [4, 8] is unfinished; x [4, 8] is
 * whole. Then comes a case, which makes m, flat with `elements`; at last a number of all elements.
 * x goes on beside the case, so that nothing of it is passed on. */
static const char head[] = "graph \"rule\"\n"
                           "input %%x : f32[4,8]%.*s\n"
                           "input %%ids : i32[4]\n"
                           "parameter %%w : f32[8,16] frozen\n"
                           "parameter %%v : f32[16,8] frozen\n"
                           "parameter %%b : f32[16] frozen\n"
                           "parameter %%table : f32[16,8] frozen\n"
                           "%%two : f32[] = constant { value = 2.0 } phase forward\n"
                           "%%h : f32[4,16] = matmul %%x %%w phase forward\n"
                           "%%sum : f32[4,8] = matmul %%h %%v phase forward\n"
                           "%s"
                           "%%flat : f32[1,%u] = reshape %%m { shape = [1, %u] } phase forward\n"
                           "%%count : f32[1,%u] = column %%flat phase forward\n"
                           "%%weighted : f32[1,%u] = mul %%flat %%count phase forward\n"
                           "%%total : f32[1,1] = row_sum %%weighted phase forward\n"
                           "%%x.all : f32[1,32] = reshape %%x { shape = [1, 32] } phase forward\n"
                           "%%x.sum : f32[1,1] = row_sum %%x.all phase forward\n"
                           "%%out : f32[1,1] = add %%total %%x.sum phase forward\n"
                           "output %%out\n";

const struct layout_case layout_cases[] = {
    {"add", 64, 's', false, "%m : f32[4,16] = add %h %b" F},
    {"sub", 64, 's', false, "%m : f32[4,16] = sub %b %h" F},
    {"mul", 64, 's', false, "%m : f32[4,16] = mul %h %b" F},
    {"mul of two", 64, 's', false, "%m : f32[4,16] = mul %h %h" F},
    {"div", 64, 's', false, "%m : f32[4,16] = div %h %two" F},
    {"maximum", 64, 's', false, "%m : f32[4,16] = maximum %h %b" F},
    {"minimum", 64, 's', false, "%m : f32[4,16] = minimum %h %b" F},
    {"equal", 64, 's', false, "%m : f32[4,16] = equal %h %two" F},
    {"less", 64, 's', false, "%m : f32[4,16] = less %h %b" F},
    {"select", 64, 's', false,
     "%less : f32[4,16] = less %h %b" F "%m : f32[4,16] = select %less %h %b" F},
    {"neg", 64, 's', false, "%m : f32[4,16] = neg %h" F},
    {"exp", 64, 's', true, "%t : f32[4,16] = tanh %h" F "%m : f32[4,16] = exp %t" F},
    {"log", 64, 's', true,
     "%s : f32[4,16] = mul %h %h" F "%p : f32[4,16] = add %s %two" F "%m : f32[4,16] = log %p" F},
    {"sqrt", 64, 's', true, "%s : f32[4,16] = mul %h %h" F "%m : f32[4,16] = sqrt %s" F},
    {"rsqrt", 64, 's', true,
     "%s : f32[4,16] = mul %h %h" F "%p : f32[4,16] = add %s %two" F "%m : f32[4,16] = rsqrt %p" F},
    {"erf", 64, 's', true, "%m : f32[4,16] = erf %h" F},
    {"sigmoid", 64, 's', true, "%m : f32[4,16] = sigmoid %h" F},
    {"cast", 64, 's', false,
     "%n : bf16[4,16] = cast %h { dtype = 3 }" F "%m : f32[4,16] = cast %n { dtype = 1 }" F},
    {"a parameter's cast and reshape", 64, 's', false,
     "%n : bf16[16] = cast %b { dtype = 3 }" F "%c : f32[16] = cast %n { dtype = 1 }" F
     "%r : f32[1,16] = reshape %c { shape = [1, 16] }" F "%m : f32[4,16] = add %h %r" F},
    {"whole beside split", 64, 's', false,
     "%x2 : f32[4,16] = concat %x %x { axis = 1 }" F "%m : f32[4,16] = add %h %x2" F},
    {"rows of the other operand", 64, 's', false,
     "%r : f32[4,1] = row_sum %x" F "%m : f32[4,16] = mul %h %r" F},
    {"column", 64, 's', false, "%c : f32[4,16] = column %h" F "%m : f32[4,16] = mul %h %c" F},
    {"column of rows", 64, 's', false,
     "%t : f32[16,4] = transpose %h { permutation = [1, 0] }" F "%c : f32[16,4] = column %t" F
     "%m : f32[16,4] = mul %t %c" F},
    {"row_sum", 4, 'u', false, "%m : f32[4,1] = row_sum %h" F},
    {"row_sum of rows", 16, 's', false,
     "%t : f32[16,4] = transpose %h { permutation = [1, 0] }" F "%m : f32[16,1] = row_sum %t" F},
    {"row_sum of a sum", 4, 'u', false, "%m : f32[4,1] = row_sum %sum" F},
    {"row_max", 4, 'm', false, "%m : f32[4,1] = row_max %h" F},
    {"row_max of rows", 16, 's', false,
     "%t : f32[16,4] = transpose %h { permutation = [1, 0] }" F "%m : f32[16,1] = row_max %t" F},
    {"row_max of a sum", 4, 'w', false, "%m : f32[4,1] = row_max %sum" F},
    {"column_sum", 16, 's', false, "%m : f32[16] = column_sum %h" F},
    {"column_sum of rows", 4, 'u', false,
     "%t : f32[16,4] = transpose %h { permutation = [1, 0] }" F "%m : f32[4] = column_sum %t" F},
    {"column_sum of a sum", 8, 'u', false, "%m : f32[8] = column_sum %sum" F},
    {"sum and sum", 32, 'u', false,
     "%h2 : f32[4,16] = mul %h %two" F "%other : f32[4,8] = matmul %h2 %v" F
     "%m : f32[4,8] = add %sum %other" F},
    {"a multiple of a sum", 32, 'u', false, "%m : f32[4,8] = mul %sum %two" F},
    {"the negative of a sum", 32, 'u', false, "%m : f32[4,8] = neg %sum" F},
    {"a sum read twice", 32, 'w', false, "%m : f32[4,8] = mul %sum %sum" F},
    {"a sum beside a whole", 32, 'w', false, "%m : f32[4,8] = add %sum %x" F},
    {"reshape", 64, 's', false,
     "%r : f32[4,4,4] = reshape %h { shape = [4, 4, 4] }" F "%m : f32[4,4,4] = mul %r %r" F},
    {"reshape of a sum", 32, 'u', false, "%m : f32[2,16] = reshape %sum { shape = [2, 16] }" F},
    {"transpose", 64, 's', false,
     "%r : f32[4,4,4] = reshape %h { shape = [4, 4, 4] }" F
     "%t : f32[4,4,4] = transpose %r { permutation = [2, 1, 0] }" F "%m : f32[4,4,4] = neg %t" F},
    {"transpose of a sum", 32, 'u', false,
     "%t : f32[8,4] = transpose %sum { permutation = [1, 0] }" F
     "%m : f32[8,4] = concat %t { axis = 0 }" F},
    {"slice of rows", 32, 's', false,
     "%s : f32[2,16] = slice %h { axis = 0, begin = 1, end = 3 }" F "%m : f32[2,16] = neg %s" F},
    {"slice of blocks", 32, 's', false,
     "%s : f32[4,8] = slice %h { axis = 1, begin = 8, end = 16 }" F "%m : f32[4,8] = neg %s" F},
    {"slice of a sum", 16, 'u', false,
     "%s : f32[4,4] = slice %sum { axis = 1, begin = 2, end = 6 }" F "%m : f32[4,4] = neg %s" F},
    {"pad of rows", 96, 's', false,
     "%m : f32[6,16] = pad %h { axis = 0, begin = 1, length = 6 }" F},
    {"pad of blocks", 192, 's', false,
     "%m : f32[4,48] = pad %h { axis = 1, begin = 16, length = 48 }" F},
    {"pad across blocks", 80, 'w', false,
     "%m : f32[4,20] = pad %h { axis = 1, begin = 1, length = 20 }" F},
    {"pad of a sum", 40, 'u', false,
     "%m : f32[4,10] = pad %sum { axis = 1, begin = 1, length = 10 }" F},
    {"concat of rows", 128, 's', false, "%m : f32[8,16] = concat %h %h { axis = 0 }" F},
    {"concat of columns", 128, 's', false,
     "%n : f32[4,16] = neg %h" F "%m : f32[4,32] = concat %h %n { axis = 1 }" F},
    {"concat with a whole", 96, 'w', false, "%m : f32[4,24] = concat %h %x { axis = 1 }" F},
    {"concat of sums", 64, 'u', false,
     "%h2 : f32[4,16] = mul %h %two" F "%other : f32[4,8] = matmul %h2 %v" F
     "%m : f32[8,8] = concat %sum %other { axis = 0 }" F},
    {"matmul of what is contracted", 16, 'u', false,
     "%m : f32[4,4] = matmul %h %h { transpose_b = 1 }" F},
    {"matmul of rows and a whole", 128, 's', false,
     "%m : f32[16,8] = matmul %h %x { transpose_a = 1 }" F},
    {"matmul of a whole and columns", 128, 's', false,
     "%m : f32[8,16] = matmul %x %h { transpose_a = 1 }" F},
    {"matmul of rows and columns", 256, 's', false,
     "%m : f32[16,16] = matmul %h %h { transpose_a = 1 }" F},
    {"matmul of sums", 16, 'w', false, "%m : f32[4,4] = matmul %sum %x { transpose_b = 1 }" F},
    {"matmul by heads", 64, 's', false,
     "%r : f32[4,4,4] = reshape %h { shape = [4, 4, 4] }" F
     "%t : f32[4,4,4] = transpose %r { permutation = [1, 0, 2] }" F
     "%m : f32[4,4,4] = matmul %t %t { transpose_b = 1 }" F},
    {"matmul by heads that share keys", 64, 's', false,
     "%r : f32[4,4,4] = reshape %h { shape = [4, 4, 4] }" F
     "%t : f32[4,4,4] = transpose %r { permutation = [1, 0, 2] }" F
     "%y : f32[1,4,4] = slice %t { axis = 0, begin = 0, end = 1 }" F
     "%m : f32[4,4,4] = matmul %t %y" F},
    {"matmul_accumulate", 32, 'u', false,
     "%h2 : f32[4,16] = mul %h %two" F "%m : f32[4,8] = matmul_accumulate %sum %h2 %v" F},
    {"attention", 64, 's', true,
     "%q : f32[1,4,4,4] = reshape %h { shape = [1, 4, 4, 4] }" F
     "%o : f32[1,4,4,4], %l : f32[1,4,4] = attention %q %q %q { scale = 0.01, causal = 1 }" F
     "%m : f32[1,4,4,4] = neg %o" F},
    {"attention_backward", 64, 's', true,
     "%q : f32[1,4,4,4] = reshape %h { shape = [1, 4, 4, 4] }" F
     "%o : f32[1,4,4,4], %l : f32[1,4,4] = attention %q %q %q { scale = 0.01, causal = 1 }" F
     "%dq : f32[1,4,4,4], %dk : f32[1,4,4,4], %dv : f32[1,4,4,4] = attention_backward %o %q %q %q "
     "%o "
     "%l { scale = 0.01, causal = 1 }" F "%a : f32[1,4,4,4] = add %dq %dk" F
     "%m : f32[1,4,4,4] = add %a %dv" F},
    {"embedding", 32, 'w', false,
     "%e : f32[4,8] = embedding %table %ids" F "%m : f32[4,8] = mul %e %e" F},
    {"embedding, added to a sum", 32, 'u', false,
     "%e : f32[4,8] = embedding %table %ids" F "%m : f32[4,8] = add %e %sum" F},
    {"embedding of a table in blocks", 32, 's', false,
     "%q : f32[4,16] = matmul %x %table { transpose_b = 1 }" F
     "%s : f32[4,8] = slice %q { axis = 1, begin = 8, end = 16 }" F
     "%e : f32[4,8] = embedding %table %ids" F "%m : f32[4,8] = mul %e %s" F},
    {"embedding_backward", 128, 's', false,
     "%e : f32[4,8] = embedding %table %ids" F "%y : f32[4,8] = mul %e %e" F
     "%m : f32[16,8] = embedding_backward %y %ids { rows = 16 }" F},
    {"embedding_accumulate", 128, 's', false,
     "%e : f32[4,8] = embedding %table %ids" F "%y : f32[4,8] = mul %e %e" F
     "%d : f32[16,8] = embedding_backward %y %ids { rows = 16 }" F
     "%m : f32[16,8] = embedding_accumulate %d %y %ids" F},
    {"matmul_accumulate onto a whole", 32, 'w', false,
     "%c : f32[4,8] = neg %x" F "%m : f32[4,8] = matmul_accumulate %c %h %v" F},
    {"matmul_accumulate onto a split one", 32, 'w', false,
     "%s : f32[4,8] = slice %h { axis = 1, begin = 8, end = 16 }" F "%c : f32[4,8] = neg %s" F
     "%m : f32[4,8] = matmul_accumulate %c %h %v" F},
};
const size_t layout_case_count = COUNT(layout_cases);

/* Two ranks have whole ones, four have halves. */
#define SEQUENCES                                                                                  \
    "%r : f32[2,2,8] = reshape %sum { shape = [2, 2, 8] }" F "%y : f32[2,2,8] = mul %r %r" F

const struct layout_case layout_token_cases[] = {
    {"a sum and what follows", 32, 't', false, "%m : f32[4,8] = mul %sum %sum" F},
    {"beside a whole", 32, 't', false, "%m : f32[4,8] = add %sum %x" F},
    {"beside whole rows", 32, 't', false,
     "%r : f32[4,1] = row_sum %x" F "%m : f32[4,8] = add %sum %r" F},
    {"beside a split", 64, 's', false,
     "%y : f32[4,8] = mul %sum %sum" F "%z : f32[4,16] = concat %y %y { axis = 1 }" F
     "%m : f32[4,16] = add %z %h" F},
    {"three layouts of one sum", 32, 's', false,
     "%y : f32[4,8] = mul %sum %sum" F
     "%s : f32[4,8] = slice %h { axis = 1, begin = 8, end = 16 }" F "%z : f32[4,8] = add %sum %s" F
     "%m : f32[4,8] = add %z %y" F},
    {"row_sum", 4, 't', false, "%y : f32[4,8] = mul %sum %sum" F "%m : f32[4,1] = row_sum %y" F},
    {"row_max of a sum", 4, 't', false, "%m : f32[4,1] = row_max %sum" F},
    {"column_sum", 8, 'u', false,
     "%y : f32[4,8] = mul %sum %sum" F "%m : f32[8] = column_sum %y" F},
    {"column", 32, 't', false,
     "%y : f32[4,8] = mul %sum %sum" F "%c : f32[4,8] = column %y" F "%m : f32[4,8] = mul %y %c" F},
    {"column of a sum", 32, 'w', false,
     "%c : f32[4,8] = column %sum" F "%m : f32[4,8] = mul %x %c" F},
    {"reshape of a sum", 32, 't', false,
     "%r : f32[4,2,4] = reshape %sum { shape = [4, 2, 4] }" F "%m : f32[4,2,4] = mul %r %r" F},
    {"reshape", 32, 't', false,
     "%y : f32[4,8] = mul %sum %sum" F "%m : f32[4,2,4] = reshape %y { shape = [4, 2, 4] }" F},
    {"reshape, on four ranks across parts", 32, 't', false,
     "%y : f32[4,8] = mul %sum %sum" F "%z : f32[2,16] = reshape %y { shape = [2, 16] }" F
     "%m : f32[2,16] = neg %z" F},
    {"transpose", 32, 't', false,
     "%y : f32[4,8] = mul %sum %sum" F "%z : f32[8,4] = transpose %y { permutation = [1, 0] }" F
     "%m : f32[8,4] = neg %z" F},
    {"slice of columns", 16, 't', false,
     "%y : f32[4,8] = mul %sum %sum" F "%s : f32[4,4] = slice %y { axis = 1, begin = 2, end = 6 }" F
     "%m : f32[4,4] = neg %s" F},
    {"slice of tokens", 16, 'w', false,
     "%y : f32[4,8] = mul %sum %sum" F
     "%m : f32[2,8] = slice %y { axis = 0, begin = 1, end = 3 }" F},
    {"pad", 48, 't', false,
     "%y : f32[4,8] = mul %sum %sum" F
     "%m : f32[4,12] = pad %y { axis = 1, begin = 3, length = 12 }" F},
    {"concat", 64, 't', false,
     "%y : f32[4,8] = mul %sum %sum" F "%m : f32[4,16] = concat %y %x { axis = 1 }" F},
    {"matmul with columns", 64, 's', false,
     "%y : f32[4,8] = mul %sum %sum" F "%m : f32[4,16] = matmul %y %w" F},
    {"matmul over tokens", 64, 'u', false,
     "%y : f32[4,8] = mul %sum %sum" F "%m : f32[8,8] = matmul %y %y { transpose_a = 1 }" F},
    {"matmul over tokens beside columns", 128, 's', false,
     "%y : f32[4,8] = mul %sum %sum" F "%m : f32[8,16] = matmul %y %h { transpose_a = 1 }" F},
    {"matmul of rows and tokens", 128, 's', false,
     "%y : f32[4,8] = mul %sum %sum" F "%m : f32[16,8] = matmul %h %y { transpose_a = 1 }" F},
    {"matmul of tokens and a whole", 16, 't', false,
     "%y : f32[4,8] = mul %sum %sum" F "%m : f32[4,4] = matmul %y %x { transpose_b = 1 }" F},
    {"matmul_accumulate", 32, 'u', false,
     "%h2 : f32[4,16] = mul %h %two" F "%m : f32[4,8] = matmul_accumulate %sum %h2 %v" F},
    {"embedding", 32, 't', false,
     "%e : f32[4,8] = embedding %table %ids" F "%m : f32[4,8] = mul %e %e" F},
    {"embedding_backward", 128, 's', false,
     "%e : f32[4,8] = embedding %table %ids" F "%y : f32[4,8] = mul %e %e" F
     "%m : f32[16,8] = embedding_backward %y %ids { rows = 16 }" F},
    {"sequences", 32, 't', false, SEQUENCES "%m : f32[2,2,8] = neg %y" F},
    {"sequences beside each position", 32, 't', false,
     SEQUENCES "%p : f32[2,8] = slice %x { axis = 0, begin = 1, end = 3 }" F
               "%m : f32[2,2,8] = add %y %p" F},
    {"sequences beside a row of each", 32, 't', false,
     SEQUENCES "%p : f32[2,8] = slice %x { axis = 0, begin = 1, end = 3 }" F
               "%q : f32[2,1,8] = reshape %p { shape = [2, 1, 8] }" F
               "%m : f32[2,2,8] = add %y %q" F},
    {"sequences beside a number of each token", 32, 't', false,
     SEQUENCES "%p : f32[2,2,1] = row_sum %y" F "%m : f32[2,2,8] = mul %y %p" F},
    {"transpose of sequences", 32, 't', false,
     SEQUENCES "%z : f32[2,2,8] = transpose %y { permutation = [1, 0, 2] }" F
               "%m : f32[2,2,8] = neg %z" F},
    {"slice of sequences", 16, 't', false,
     SEQUENCES "%z : f32[2,1,8] = slice %y { axis = 1, begin = 1, end = 2 }" F
               "%m : f32[2,1,8] = neg %z" F},
    {"slice of columns of sequences", 8, 't', false,
     SEQUENCES "%z : f32[2,2,2] = slice %y { axis = 2, begin = 1, end = 3 }" F
               "%m : f32[2,2,2] = neg %z" F},
    {"concat of sequences", 64, 't', false,
     SEQUENCES "%m : f32[2,4,8] = concat %y %y { axis = 1 }" F},
    {"concat of columns of sequences", 64, 't', false,
     SEQUENCES "%m : f32[2,2,16] = concat %y %y { axis = 2 }" F},
    {"matmul of sequences", 8, 't', true,
     SEQUENCES "%m : f32[2,2,2] = matmul %y %y { transpose_b = 1 }" F},
    {"column_sum of sequences", 8, 'u', false, SEQUENCES "%m : f32[8] = column_sum %y" F},
    {"a whole that is read in parts", 32, 't', false,
     "%c : f32[4,8] = mul %x %x" F "%m : f32[4,8] = add %sum %c" F},
};
const size_t layout_token_case_count = COUNT(layout_token_cases);

struct remat_graph *layout_parse(remat_context *ctx, struct remat_arena *arena,
                                 const struct layout_case *c, uint32_t ranks)
{
    char text[8192];
    struct remat_graph *graph;
    uint32_t n = c->elements;
    int of_x = c->text[0] == ' ' ? (int)strcspn(c->text, "\n") : 0;
    int length = snprintf(text, sizeof text, head, of_x, c->text, c->text + of_x, n, n, n, n);
    MUST_OK(ctx, remat_graph_parse(ctx, c->name, text, (size_t)length, arena, &graph));
    if (ranks > 1)
        graph->mesh = (struct remat_mesh){1, {{"tp", ranks}}};
    return graph;
}

struct search {
    remat_context *ctx;
    const struct layout_case *c;
    bool sequence;
};

/* A rule that makes everything whole would be right, too. */
static remat_status check_layout(void *user)
{
    static const char letters[] = "?wsum";
    const struct search *s = user;
    struct remat_arena *arena = remat_scratch_open(s->ctx);
    struct remat_graph *graph = layout_parse(s->ctx, arena, s->c, 2);
    struct remat_layouts layouts;
    char found = 0;
    REMAT_CHECK(remat_pass_expand(arena, graph, &undivided, &graph));
    REMAT_CHECK(remat_layouts_find(arena, graph, "tp", s->sequence, &layouts));
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (strcmp(graph->values[v].name, "m") == 0)
            found = layouts.of[v].kind == REMAT_LAYOUT_SPLIT && layouts.of[v].tokens
                        ? 't'
                        : letters[layouts.of[v].kind];
    CHECK(found == s->c->layout, "%s: layout '%c', expected '%c'", s->c->name, found, s->c->layout);
    remat_scratch_close(arena);
    return REMAT_OK;
}

void layouts_check_found(remat_context *ctx, const struct layout_case *c, size_t count,
                         bool sequence)
{
    for (size_t k = 0; k < count; k++)
        MUST_OK(ctx, remat_guard(ctx, check_layout, &(struct search){ctx, &c[k], sequence}));
}

static struct remat_program *compile(remat_context *ctx, struct remat_arena *arena,
                                     const struct layout_case *c, uint32_t ranks, bool sequence)
{
    const struct remat_policy_settings none = {0};
    struct remat_program *program;
    struct remat_graph *graph = layout_parse(ctx, arena, c, ranks);
    const struct remat_pass_settings passes = {.sequence_parallel = sequence && ranks > 1};
    MUST_OK(ctx, harness_compile(ctx, arena, graph, &passes, &none, 0, &program));
    return program;
}

struct rank {
    pthread_t thread;
    remat_engine engine;
    const struct remat_plan *plan;
    float out;
};

/* Whole numbers from -2 to 2, and this rank's part of them. */
static void write_parameters(remat_context *ctx, const struct rank *rank, remat_session *session)
{
    remat_tensor_info info = {.struct_size = sizeof info};
    for (uint32_t t = 0; remat_plan_get_tensor(rank->plan, t, &info); t++) {
        float data[256];
        uint64_t count = info.bytes / sizeof(float);
        if (info.role != REMAT_TENSOR_PARAMETER)
            continue;
        MUST(count <= 256);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t at = remat_parts_element(info.parts, rank->engine.rank, i);
            data[i] = (float)((at * 7 + at / 5 + t) % 5) - 2;
        }
        MUST_OK(ctx, remat_session_write(session, info.name, data, info.bytes));
    }
}

static void *run(void *user)
{
    struct rank *rank = user;
    remat_session_params params;
    remat_session *session;
    float x[32];
    const int32_t ids[4] = {3, 15, 0, 8};
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    remat_session_params_init(&params);
    params.threads = 1;
    params.engine = rank->engine.ranks ? &rank->engine : NULL;
    MUST_OK(ctx, remat_session_create(ctx, rank->plan, &params, &session));
    MUST_OK(ctx, remat_session_run(session, "init"));
    write_parameters(ctx, rank, session);
    for (uint32_t i = 0; i < 32; i++)
        x[i] = (float)(i * 5 % 7) - 3;
    MUST_OK(ctx, remat_session_write(session, "x", x, sizeof x));
    MUST_OK(ctx, remat_session_write(session, "ids", ids, sizeof ids));
    MUST_OK(ctx, remat_session_run(session, "eval"));
    MUST_OK(ctx, remat_session_read(session, "out", &rank->out, sizeof rank->out));
    remat_session_destroy(&session);
    remat_context_destroy(&ctx);
    return NULL;
}

static void run_all(remat_context *ctx, const struct remat_plan *plan, struct rank *ranks)
{
    uint32_t count = remat_program_ranks(plan->program);
    remat_local_ranks *local;
    MUST_OK(ctx, remat_local_create(ctx, count, &local));
    for (uint32_t r = 0; r < count; r++) {
        ranks[r] = (struct rank){.plan = plan};
        if (count > 1)
            remat_local_engine(local, r, &ranks[r].engine);
        MUST(pthread_create(&ranks[r].thread, NULL, run, &ranks[r]) == 0);
    }
    for (uint32_t r = 0; r < count; r++)
        pthread_join(ranks[r].thread, NULL);
    remat_local_destroy(&local);
}

static void test_case(remat_context *ctx, const struct layout_case *c, bool sequence)
{
    struct rank one[RANKS_MAX], ranks[RANKS_MAX];
    for (uint32_t count = 1; count <= RANKS_MAX; count *= 2) {
        struct remat_arena arena;
        remat_arena_init(&arena, ctx);
        struct remat_plan plan = borrowed_plan(compile(ctx, &arena, c, count, sequence));
        run_all(ctx, &plan, count == 1 ? one : ranks);
        CHECK(fabsf(one[0].out) > 1, "%s: %g", c->name, (double)one[0].out);
        for (uint32_t r = 0; r < count && count > 1; r++)
            CHECK(c->rounds ? fabsf(ranks[r].out - one[0].out) <= 1e-5f * fabsf(one[0].out)
                            : ranks[r].out == one[0].out,
                  "%s: rank %u of %u: %.9g, one rank %.9g", c->name, r, count, (double)ranks[r].out,
                  (double)one[0].out);
        remat_arena_release(&arena);
    }
}

/* Also with sequence parallelism what has a sum that it finishes into parts. */
void layouts_check_all(remat_context *ctx, const struct layout_case *all, size_t count, bool tokens)
{
    layouts_check_found(ctx, all, count, tokens);
    for (size_t k = 0; k < count; k++) {
        test_case(ctx, &all[k], tokens);
        if (!tokens && strstr(all[k].text, "%sum"))
            test_case(ctx, &all[k], true);
    }
}

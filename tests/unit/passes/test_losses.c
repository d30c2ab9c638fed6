/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of a step in microbatches, evaluated in float64: counts, then N microbatches, give the
 * loss of the graph as it was written over the whole batch, its finite differences, and the
 * gradients of its step at once. What depends on several entries of the batch is refused, and its
 * node named. */
#include "graph_text.h"
#include "reference.h"
#include "workbench.h"

#include <math.h>
#include <stdio.h>

#define BATCH    6
#define ELEMENTS 28 /* of a parameter */

static const char head[] = "input %ids : i32[batch,3]\n"
                           "input %to : i32[batch,3]\n"
                           "input %none : i32[batch,3]\n"
                           "input %n : f32[1]\n"
                           "parameter %wte : f32[7,4]\n"
                           "parameter %w : f32[4,7]\n"
                           "%h : f32[batch,3,4] = embedding %wte %ids phase forward\n"
                           "%logits : f32[batch,3,7] = linear %h %w phase forward\n";

#define CROSS(name, rest) "%" name " : f32[], %" name ".1 : f32[batch,3,1] = cross_entropy " rest
#define SUM                                                                                        \
    "%a : f32[7] = column_sum %logits; %b : f32[1,7] = reshape %a { shape = [1, 7] }; "            \
    "%c : f32[1,1] = row_sum %b; "

static const struct {
    const char *name, *text; /* nodes that compute %loss */
    uint32_t loss_chunk;
} cases[] = {
    {"counted", CROSS("loss", "%logits %to { ignore_index = 3 }"), 0},
    {"counted in chunks", CROSS("loss", "%logits %to { ignore_index = 3 }"), 2},
    {"no target counts", CROSS("loss", "%logits %none { ignore_index = 0 }"), 0},
    {"no target counts in chunks", CROSS("loss", "%logits %none { ignore_index = 0 }"), 2},
    {"counted slices",
     "%e : i32[batch,2] = slice %to { axis = 1, begin = 1, end = 3 }; "
     "%l : f32[batch,2,7] = slice %logits { axis = 1, begin = 0, end = 2 }; "
     "%loss : f32[], %loss.1 : f32[batch,2,1] = cross_entropy %l %e { ignore_index = 3 }",
     0},
    {"two counts",
     CROSS("a", "%logits %to { ignore_index = 3 }") "; " CROSS(
         "b", "%logits %to { ignore_index = 5 }") "; %loss : f32[] = sub %a %b",
     0},
    {"over a given count", CROSS("loss", "%logits %to %n { ignore_index = 3 }"), 0},
    {"over a given count in chunks", CROSS("loss", "%logits %to %n"), 2},
    {"mean of rows", CROSS("loss", "%logits %to"), 0},
    {"padding row",
     "%e : f32[batch,3,4] = embedding %wte %ids { padding_idx = 2 }; "
     "%s : f32[batch,3,4] = tanh %e; %r : f32[batch,3,7] = linear %s %w; %loss : f32[] = mean %r",
     0},
    {"mean", "%s : f32[batch,3,7] = tanh %logits; %loss : f32[] = mean %s", 0},
    {"mean and decay",
     "%s : f32[batch,3,7] = tanh %logits; %a : f32[] = mean %s; %q : f32[4,7] = mul %w %w; "
     "%b : f32[] = mean %q; %loss : f32[] = add %a %b",
     0},
    {"sum", SUM "%loss : f32[] = reshape %c { shape = [] }", 0},
    {"scaled sum",
     SUM "%d : f32[] = reshape %c { shape = [] }; %loss : f32[] = scale %d { scale = 0.25 }", 0},
};
#define CASE_COUNT (sizeof cases / sizeof cases[0])

static struct remat_graph *read_graph(struct workbench *w, const char *nodes, int batch)
{
    return workbench_read(w, head, nodes, "loss", "loss", batch);
}

/* After all passes. */
static struct remat_graph *prepare(struct workbench *w, const struct remat_graph *source)
{
    static remat_status (*const all[])(struct remat_arena *, const struct remat_graph *,
                                       const struct remat_pass_settings *,
                                       struct remat_graph **) = {
        remat_pass_losses,   remat_pass_indices,      remat_pass_chunk_loss,
        remat_pass_autodiff, remat_pass_microbatches, remat_pass_eliminate_common,
        remat_pass_expand,   remat_pass_fold};
    struct remat_graph *graph = (struct remat_graph *)source;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        MUST_OK(w->ctx, all[k](&w->arena, graph, &w->passes, &graph));
    MUST_OK(w->ctx, remat_graph_verify(w->ctx, graph));
    return graph;
}

/* --- evaluation --- */

static double element_of(const char *name, remat_dtype dtype, int64_t i)
{
    uint64_t hash = remat_hash(&i, sizeof i, remat_hash_string(name, 3));
    if (strcmp(name, "none") == 0)
        return 0;
    if (strcmp(name, "n") == 0)
        return 11;
    return dtype == REMAT_I32 ? (double)(hash % 7) : (double)(hash % 2000) / 1000 - 1;
}

/* Inputs of the whole batch; 0 in the states that a step writes. */
static double **fill(struct workbench *w, const struct remat_graph *graph)
{
    double **values;
    REMAT_NEW(&w->arena, values, graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *info = &graph->values[v];
        int64_t n = remat_shape_elements(&info->shape);
        if (!remat_is_none(info->node.i))
            continue;
        REMAT_NEW(&w->arena, values[v], (size_t)n);
        bool given = info->role == REMAT_ROLE_INPUT || info->role == REMAT_ROLE_PARAMETER;
        for (int64_t i = 0; i < n && given; i++)
            values[v][i] = element_of(info->name, info->dtype, i);
    }
    return values;
}

static void run(struct workbench *w, const struct remat_graph *graph, double **values)
{
    CHECK(reference_evaluate(&w->arena, graph, values), "evaluation");
    for (uint32_t u = 0; u < graph->update_count; u++) {
        remat_value state = graph->updates[u].state;
        memcpy(values[state.i], values[graph->updates[u].value.i],
               (size_t)remat_shape_elements(&graph->values[state.i].shape) * sizeof(double));
    }
}

/* The graph input of that name, or what is computed; `input`: the former. */
static double *find(const struct remat_graph *graph, double **values, const char *name, bool input)
{
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (strcmp(graph->values[v].name, name) == 0 &&
            remat_is_none(graph->values[v].node.i) == input)
            return values[v];
    return NULL;
}

static double largest(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

static void compare(const char *what, uint32_t parts, const double *x, const double *y, int64_t n,
                    double limit)
{
    if (!CHECK(x && y, "%s: not there", what))
        return;
    double scale = fmax(largest(x, n), 1e-3);
    for (int64_t i = 0; i < n; i++)
        CHECK(fabs(x[i] - y[i]) <= limit * scale, "%s in %u: [%d] is %.17g, at once %.17g", what,
              parts, (int)i, y[i], x[i]);
}

/* Of the table; -1: all have gradients. */
static int64_t padding_row(const struct remat_graph *source)
{
    for (uint32_t n = 0; n < source->node_count; n++)
        if (remat_node_attribute(&source->nodes[n], "padding_idx"))
            return remat_node_int(&source->nodes[n], "padding_idx", 0);
    return -1;
}

/* Of the loss by the elements of a parameter, in `source`; 0 by those of a row without a gradient.
 */
static double *differences(struct workbench *w, const struct remat_graph *source, double **values,
                           const char *parameter, int64_t n)
{
    const double step = 1e-4;
    double *x = find(source, values, parameter, true), *out;
    REMAT_NEW(&w->arena, out, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        for (int sign = 1; sign >= -1; sign -= 2) {
            x[i] += sign * step;
            run(w, source, values);
            out[i] += sign * *find(source, values, "loss", false) / (2 * step);
            x[i] -= sign * step;
        }
        if (i / 4 == padding_row(source) && strcmp(parameter, "wte") == 0)
            out[i] = 0;
    }
    return out;
}

static void check_parts(size_t c, uint32_t parts)
{
    static const char *const names[] = {"loss", "wte.grad", "w.grad", "wte", "w"};
    struct workbench w;
    workbench_open(&w);
    w.passes.loss_chunk = cases[c].loss_chunk;
    struct remat_graph *source = read_graph(&w, cases[c].text, BATCH);
    struct remat_graph *once = prepare(&w, source);
    double **written = fill(&w, source), **x = fill(&w, once);
    run(&w, source, written);
    run(&w, once, x);
    w.passes.microbatches = parts;
    struct remat_graph *all = prepare(&w, read_graph(&w, cases[c].text, BATCH / (int)parts));
    struct remat_graph *ahead = remat_split(&w.arena, all, REMAT_SPLIT_AHEAD);
    struct remat_graph *part = remat_split(&w.arena, all, REMAT_SPLIT_MICROBATCH);
    double **a = fill(&w, ahead), **y = fill(&w, part);
    run(&w, ahead, a);
    for (uint32_t u = 0; u < ahead->update_count; u++) {
        const char *name = ahead->values[ahead->updates[u].state.i].name;
        *find(part, y, name, true) = *find(ahead, a, name, true);
    }
    double *number = find(part, y, "microbatch", true);
    for (*number = 0; *number < parts; ++*number)
        run(&w, part, y);
    compare(cases[c].name, parts, find(source, written, "loss", false), find(part, y, "loss", true),
            1, 1e-12);
    for (int k = 0; k < 3; k++)
        compare(cases[c].name, parts, find(once, x, names[k], false), find(part, y, names[k], true),
                k ? ELEMENTS : 1, 1e-12);
    for (int k = 1; k < 3; k++)
        compare(cases[c].name, parts, differences(&w, source, written, names[k + 2], ELEMENTS),
                find(part, y, names[k], true), ELEMENTS, 1e-6);
    workbench_close(&w);
}

/* --- what has one part --- */

static const struct {
    const char *text, *message;
} refused[] = {
    {"%m : f32[7] = column_sum %logits; %c : f32[batch,3,7] = sub %logits %m; " CROSS("loss",
                                                                                      "%c %to"),
     "output \"loss\": node \"c\" (sub) makes something of several entries of the batch, so a step "
     "has one microbatch, and one rank along dp"},
    {"%t : f32[3,batch,7] = transpose %logits { permutation = [1, 0, 2] }; "
     "%pairs : f32[3,batch,batch] = matmul %t %t { transpose_b = 1 }; "
     "%s : f32[3,batch,batch] = softmax %pairs; %loss : f32[] = mean %s",
     "node \"pairs\" (matmul) makes something"},
    {SUM "%d : f32[] = reshape %c { shape = [] }; %loss : f32[] = sqrt %d",
     "node \"loss\" (sqrt) makes something"},
    {CROSS("a", "%logits %to { ignore_index = 3 }") "; %b : f32[] = mean %logits; "
                                                    "%loss : f32[] = add %a %b",
     "node \"loss\" (add) makes something"},
    {"%a : i32[batch,2] = slice %to { axis = 1, begin = 1, end = 3 }; "
     "%b : i32[batch,1] = slice %to { axis = 1, begin = 0, end = 1 }; "
     "%e : i32[batch,3] = concat %a %b { axis = 1 }; " CROSS("loss",
                                                             "%logits %e { ignore_index = 3 }"),
     "output \"loss\": node \"loss\" (cross_entropy) counts targets that are computed, so"},
    {"%loss : f32[batch,3,1] = row_sum %logits",
     "node \"loss\" (row_sum) has an element for each entry of the batch"},
};

static void check_refused(void)
{
    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++)
        for (int batch = 1; batch <= 2; batch++) {
            struct workbench w;
            struct remat_graph *graph;
            workbench_open(&w);
            w.passes.microbatches = 2;
            struct remat_graph *source = read_graph(&w, refused[k].text, batch);
            CHECK_STATUS(w.ctx, remat_pass_losses(&w.arena, source, &w.passes, &graph),
                         REMAT_ERROR_INVALID, refused[k].message);
            source->mesh = (struct remat_mesh){1, {{"dp", 2}}};
            w.passes.microbatches = 1;
            CHECK_STATUS(w.ctx, remat_pass_losses(&w.arena, source, &w.passes, &graph),
                         REMAT_ERROR_INVALID, refused[k].message);
            source->mesh.axis_count = 0;
            CHECK_OK(w.ctx, remat_pass_losses(&w.arena, source, &w.passes, &graph));
            workbench_close(&w);
        }
}

int main(void)
{
    for (size_t c = 0; c < CASE_COUNT; c++)
        for (uint32_t parts = 2; parts <= BATCH; parts++)
            if (BATCH % parts == 0)
                check_parts(c, parts);
    check_refused();
    return check_exit();
}

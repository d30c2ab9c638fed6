/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of ops and passes share: a graph under construction written in short texts, its
 * random float64 inputs. */
#ifndef WORKBENCH_H
#define WORKBENCH_H

#include "builder.h"
#include "check.h"
#include "passes.h"

struct workbench {
    remat_context *ctx;
    struct remat_arena arena;
    struct remat_graph *graph;
    struct remat_builder b;
    struct remat_pass_settings passes;
    remat_status status; /* of the first node that does not fit; no later one is built */
};

void workbench_open(struct workbench *w);
void workbench_close(struct workbench *w);

/* A graph input. Text: "2,3" f32 parameter (trainable), "+2,3" the same with positive values,
 * "=2,3" f32 input, "b2,3" and "b+2,3" bf16 parameters, "i2,3<5" i32 input with values below 5, ""
 * rank 0. */
remat_value workbench_input(struct workbench *w, const char *name, const char *text);
/* A node from inputs and attributes such as "axis=1 scale=0.5 permutation=1,0"; the first output.
 */
remat_value workbench_node(struct workbench *w, const char *op, const remat_value *inputs,
                           uint32_t count, const char *attributes, remat_value *outputs);
/* The inputs of a node as texts separated by blanks ("-" for rank 0); their number. */
uint32_t workbench_inputs(struct workbench *w, const char *texts, remat_value *inputs);
void workbench_output(struct workbench *w, remat_value value);
/* A bound graph of text: `inputs`, then nodes "%a : f32[batch] = exp %x; %b : ..." of that phase,
 * of which `output` is the result. */
struct remat_graph *workbench_read(struct workbench *w, const char *inputs, const char *nodes,
                                   const char *phase, const char *output, int batch);
/* Random values of the graph inputs, by name, so that all versions of a graph get the same. */
double **workbench_random(struct workbench *w, const struct remat_graph *graph);
/* The value of that name, REMAT_NO_VALUE when there is none. */
remat_value workbench_find(const struct remat_graph *graph, const char *name);
/* Nodes of that op. */
uint32_t workbench_count(const struct remat_graph *graph, uint16_t op);

#endif

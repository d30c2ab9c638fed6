/* SPDX-License-Identifier: Apache-2.0 */
/* The graph: the compiler's representation from ingest to fusion.
 *
 * SSA with dense typed ids. A node computes one or more values from values; id order is a valid
 * execution order and, until scheduling, *the* order. A graph and all it points to lie in one arena
 * and never change once a pass has returned it; a pass builds a new graph. There are no use lists;
 * an analysis is a side array indexed by id.
 *
 * Shapes are row-major and dense; a view (op fact VIEW) is a value that owns no bytes. */
#ifndef REMAT_GRAPH_H
#define REMAT_GRAPH_H

#include "index.h"
#include "mesh.h"
#include "program.h" /* enum remat_role, enum remat_phase, enum remat_initializer, REMAT_RANK_MAX */
#include "unwind.h"

REMAT_INDEX(remat_value);
REMAT_INDEX(remat_node);
REMAT_INDEX(remat_scope_id);

#define REMAT_NO_VALUE ((remat_value){REMAT_NONE})
#define REMAT_NO_NODE  ((remat_node){REMAT_NONE})
#define REMAT_TOP      ((remat_scope_id){0}) /* the top level */
static inline bool remat_is_none(uint32_t i)
{
    return i == REMAT_NONE;
}

enum remat_pin { REMAT_PIN_NONE = 0, REMAT_PIN_SAVE = 1, REMAT_PIN_RECOMPUTE = 2 };

/* A length that becomes known when the graph is bound (remat_graph_bind of ops.h). As a dim or an
 * integer of an attribute, REMAT_SYMBOL(k) stands for symbols[k]; no other number is in that range.
 * Only code that reads, writes, prints and binds graphs handles symbols; passes work on bound
 * graphs, which have none. */
struct remat_symbol {
    const char *name; /* a WORD of the text form */
    int64_t value;    /* 1 to REMAT_SYMBOL_VALUE_MAX; 0: the user has to give it */
};
#define REMAT_SYMBOLS_MAX      16
#define REMAT_SYMBOL_VALUE_MAX INT32_MAX
#define REMAT_INTEGER_MIN      (INT64_MIN + REMAT_SYMBOLS_MAX) /* of an attribute */
#define REMAT_SYMBOL(k)        (INT64_MIN + (int64_t)(k))
static inline bool remat_is_symbol(int64_t number)
{
    return number < REMAT_INTEGER_MIN;
}
static inline uint32_t remat_symbol_index(int64_t number)
{
    return (uint32_t)(number - INT64_MIN);
}

struct remat_shape {
    uint32_t rank;
    int64_t dims[REMAT_RANK_MAX]; /* > 0; unused ones are 0 */
};
/* Product of the dims; ingest has checked that it and the bytes fit 63 bits. */
int64_t remat_shape_elements(const struct remat_shape *shape);
bool remat_shape_equal(const struct remat_shape *a, const struct remat_shape *b);
/* True if the bytes fit 63 bits. Dims are > 0; symbols count as 1. */
bool remat_shape_fits(const struct remat_shape *shape, remat_dtype dtype);

/* i32 elements that are indices: in [0, bound), or equal to `ignored` (some index below the bound
 * if none is ignored). Bound 0: not known to be indices. */
struct remat_indices {
    uint32_t bound;
    int32_t ignored;
};

/* Forward pass or loss. */
static inline bool remat_in_forward_pass(uint8_t phase)
{
    return phase == REMAT_PHASE_FORWARD || phase == REMAT_PHASE_LOSS;
}

/* A division among ranks along an axis of the mesh: rank r has the elements i, in row-major order,
 * with i / run mod ranks = r. Ranks along a second axis may divide these elements again, in equal
 * consecutive blocks. */
struct remat_rank_part {
    struct remat_shape whole;
    int64_t run;
    uint32_t axis, block_axis; /* block_axis REMAT_NONE: no second axis */
    bool tokens;               /* an activation whose tokens are divided */
};

/* A stated layout: the one that the graph gives for a value along an axis of the mesh. */
struct remat_stated {
    const char *axis; /* "tp" */
    int64_t blocks;   /* equal blocks of the dimension, each of which is split; 0: whole */
    uint32_t dimension;
};

/* A graph input that stands for the number of ids in the whole batch that are not `ignored`. */
struct remat_counted {
    const struct remat_graph *graph;
    remat_value ids; /* a batched input of that graph, or slices of it along other axes */
    int64_t ignored;
};

struct remat_value_info {
    const char *name; /* unique in the graph, except that a clone's value has its original's name */
    struct remat_shape shape;
    remat_dtype dtype;
    uint8_t role;         /* enum remat_role */
    uint8_t pin;          /* enum remat_pin */
    uint8_t initializer;  /* enum remat_initializer: parameters and states */
    bool trainable;       /* parameters: autodiff makes a gradient */
    bool no_decay;        /* parameters: weight decay leaves it out */
    bool batched;         /* graph inputs: the first axis is the batch */
    uint8_t keep;         /* clones: the action of the way to keep the original; 0: none */
    remat_value original; /* clones (checkpoint/clones.h): the value of the given graph that this is
                             or stands for */
    remat_node node;      /* the producer; none for graph inputs: parameters, states, inputs */
    uint32_t result;      /* which output of the producer */
    double init_mean, init_std;
    /* Constants, f32 or i32: the elements, row-major, at any address; NULL: init or a host fills
     * them in. Passes share it. */
    const void *data;
    /* Parameters and their states: number of rows of axis 0 (of the whole, if this is a part)
     * before the padding, which begins as 0 and is in no file; 0: no padding. */
    int64_t unpadded_rows;
    const struct remat_rank_part *part;  /* NULL: not divided */
    const struct remat_stated *stated;   /* NULL: nothing; the pass tensor_parallel consumes it */
    struct remat_indices indices;        /* graph inputs: found by the pass indices */
    const struct remat_counted *counted; /* graph inputs between the passes losses and microbatches;
                                            NULL: nothing */
    bool ahead;                          /* step states: complete before the first microbatch */
    int64_t pitch; /* elements from one row of the last axis to the next; 0: rows are dense */
};

/* Compares shapes and dtypes. */
bool remat_type_equal(const struct remat_value_info *a, const struct remat_value_info *b);

enum remat_attribute_kind { REMAT_ATTRIBUTE_INT, REMAT_ATTRIBUTE_FLOAT, REMAT_ATTRIBUTE_INTS };

struct remat_attribute {
    const char *key;
    uint8_t kind;
    uint32_t count; /* of ints */
    int64_t i;
    double f;
    const int64_t *ints;
};

struct remat_node_info {
    uint16_t op;     /* enum remat_op of ops.h */
    uint16_t origin; /* the composite op that this node was expanded from, or its own op */
    uint8_t phase;
    uint32_t origin_group; /* equal for the nodes expanded from one composite node, else own id */
    remat_scope_id scope;
    uint32_t input_count, output_count, attribute_count;
    const remat_value *inputs;
    const remat_value *outputs;
    const struct remat_attribute *attributes;
    uint32_t instance; /* 0: an original; clones: clone_round.h */
    uint32_t absent;   /* of optional operands, as kernel.h has it: remat_node_operand of ops.h */
};

/* A path such as "layers.3/attn/core". A path element "NAME.INDEX" makes a stack of layers NAME and
 * layer INDEX (at most five digits); the outermost one counts. */
struct remat_scope {
    const char *path; /* "" is the top level */
    const char
        *stack;    /* "layers" (with the path before it, "encoder/layers"), NULL outside layers */
    int32_t layer; /* index in the stack, -1 outside */
};

struct remat_nodes REMAT_LIST(remat_node);

struct remat_update { /* a state and its new version at the end of the step */
    remat_value state, value;
};

/* "P.master": the state with the f32 copy of a bf16 parameter "P", which the optimizer updates. */
#define REMAT_MASTER_SUFFIX "master"

/* The output, i32 [1], that is set if a gradient of the last step was not finite. */
#define REMAT_NOT_FINITE "not_finite"

enum remat_optimizer_kind { REMAT_OPTIMIZER_NONE, REMAT_OPTIMIZER_ADAMW, REMAT_OPTIMIZER_SGD };

#define REMAT_OPTIMIZER_SETTINGS 5
struct remat_optimizer {
    uint8_t kind; /* enum remat_optimizer_kind; none: parameters are not updated */
    union {
        struct {
            double beta1, beta2, epsilon, weight_decay;
            double clip_norm; /* limit of the norm of all gradients; 0: no limit */
        };
        double settings[REMAT_OPTIMIZER_SETTINGS]; /* the same by number */
    };
    bool no_master;    /* bf16 parameters are updated directly, without an f32 copy */
    bool bf16_moments; /* AdamW's moments are bf16, not f32 */
};

#define REMAT_LOSS_CHUNKS_MAX 16 /* limit of concat's operands */

/* The state with this rank's coordinate along an axis: "mesh.dp". */
#define REMAT_COORDINATE_PREFIX "mesh."
/* And the tensor with the number of the microbatch, where there are several. */
#define REMAT_NUMBER_NAME "microbatch"

struct remat_graph {
    const char *name;
    const char *config; /* Hugging Face's config.json of the model, in a line; NULL or "": none */
    const char *plan_only; /* what of the model it leaves out: its plans do not run; NULL or "":
                              nothing */
    struct remat_optimizer optimizer;
    struct remat_mesh mesh; /* whose axes parts and transfers number; none in a file */
    uint64_t tokens; /* of a bound graph: the symbol batch times seq, and source_seq, if it had
                        them; 0: it had none */
    uint32_t value_count, node_count, scope_count, output_count, update_count, symbol_count;
    size_t value_capacity, node_capacity, scope_capacity;
    struct remat_value_info *values;
    struct remat_node_info *nodes;
    struct remat_scope *scopes; /* the top level first */
    remat_value *outputs;       /* the loss first */
    struct remat_update *updates;
    struct remat_symbol *symbols; /* none in a bound graph */
    /* The same graph with a batch of 2, where this was bound with 1: it tells apart what an entry
     * makes of itself and what of the batch; NULL: there is none. */
    const struct remat_graph *pair;
    /* From the pass losses to microbatches, by output: it adds up over the microbatches of all
     * ranks; NULL: all are averaged. */
    const bool *summed;
    struct remat_index scope_ids; /* of scopes by path; those of a copy are not there yet */
};

/* The node that computes a value; none: a graph input. */
static inline remat_node remat_producer(const struct remat_graph *graph, remat_value value)
{
    return graph->values[value.i].node;
}

/* The same; NULL: a graph input. */
static inline const struct remat_node_info *remat_producer_info(const struct remat_graph *graph,
                                                                remat_value value)
{
    remat_node node = remat_producer(graph, value);
    return remat_is_none(node.i) ? NULL : &graph->nodes[node.i];
}

/* The instance of the producer; 0: a graph input or an original. */
static inline uint32_t remat_instance(const struct remat_graph *graph, remat_value value)
{
    const struct remat_node_info *node = remat_producer_info(graph, value);
    return node ? node->instance : 0;
}

/* The same graph, of ranks of a mesh. */
struct remat_graph remat_graph_on_mesh(const struct remat_graph *graph,
                                       const struct remat_mesh *mesh);

/* --- building --- */
struct remat_graph *remat_graph_create(struct remat_arena *arena, const char *name);
/* Finds or adds a scope. */
remat_scope_id remat_graph_scope(struct remat_arena *arena, struct remat_graph *graph,
                                 const char *path);
/* Adds a symbol; `name` must live in `arena`. `value` 0: none. The message names what is wrong. */
remat_status remat_graph_add_symbol(remat_context *ctx, struct remat_arena *arena,
                                    struct remat_graph *graph, const char *name, int64_t value);
/* Gives a symbol a value in place of the one it has. REMAT_ERROR_USAGE: there is no such symbol, or
 * the value is out of range. */
remat_status remat_graph_set_symbol(remat_context *ctx, struct remat_graph *graph, const char *name,
                                    int64_t value);
/* Reserves room for so many values and nodes in all, so that adding them moves nothing. */
void remat_graph_reserve(struct remat_arena *arena, struct remat_graph *graph, size_t value_count,
                         size_t node_count);
/* Appends a value (node and result as given in `info`); pointers in `info` must live in `arena`. */
remat_value remat_graph_add_value(struct remat_arena *arena, struct remat_graph *graph,
                                  const struct remat_value_info *info);
/* Appends a node; sets node/result of its outputs, which must already be values of the graph. Id
 * lists, attributes and their ints are copied, keys are not. origin_group REMAT_NONE: the node's
 * own id, and origin its own op. `out` may be NULL. */
remat_node remat_graph_add_node(struct remat_arena *arena, struct remat_graph *graph,
                                const struct remat_node_info *info);
/* The same without copies: what the lists point to lives as long as the graph. */
remat_node remat_graph_append_node(struct remat_arena *arena, struct remat_graph *graph,
                                   const struct remat_node_info *info);
/* A shallow copy with the same ids, whose tables can be changed and appended to, with room for
 * `room` times the values and nodes. Strings, attributes and the nodes' id lists stay shared. */
struct remat_graph *remat_graph_copy(struct remat_arena *arena, const struct remat_graph *graph,
                                     uint32_t room);
/* Copies into `arena` what a graph whose tables and id lists lie there still shares, but for the
 * keys of attributes and the data of constants. Only after the pass tensor_parallel, which consumes
 * stated layouts. */
void remat_graph_own(struct remat_arena *arena, struct remat_graph *graph);
/* A copy that shares nothing with the original but the keys of attributes and data of constants. */
struct remat_graph *remat_graph_deep_copy(struct remat_arena *arena,
                                          const struct remat_graph *graph);

/* --- reading --- */
/* The graph input with this rank's coordinate along an axis, or REMAT_NO_VALUE. */
remat_value remat_graph_coordinate(const struct remat_graph *graph, const char *axis);

/* The mesh has several ranks along the axis, and the graph does not read its coordinate along it,
 * by which it would divide things itself. */
bool remat_graph_is_undivided(const struct remat_graph *graph, const char *axis);
/* NULL: the graph has no such symbol. */
struct remat_symbol *remat_graph_symbol(const struct remat_graph *graph, const char *name);
const struct remat_attribute *remat_node_attribute(const struct remat_node_info *node,
                                                   const char *key);
int64_t remat_node_int(const struct remat_node_info *node, const char *key, int64_t otherwise);
double remat_node_float(const struct remat_node_info *node, const char *key, double otherwise);
/* Bytes of the elements: the traffic of a kernel that reads all of them. */
uint64_t remat_value_bytes(const struct remat_value_info *value);
/* Bytes of memory from the first element to the last; more than that if the value has a pitch. */
uint64_t remat_storage_bytes(const struct remat_value_info *value);
const char *remat_optimizer_name(uint8_t kind);  /* "none", "adamw", "sgd" */
const char *remat_optimizer_setting(uint32_t k); /* "beta1", ... */
/* Number of layers of the largest stack: the highest layer index of a node, plus 1; 0 without layer
 * scopes. */
uint32_t remat_graph_layers(const struct remat_graph *graph);

#endif

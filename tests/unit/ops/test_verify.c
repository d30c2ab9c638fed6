/* SPDX-License-Identifier: Apache-2.0 */
/* remat_graph_verify: a good graph passes; each way of breaking it has its message. */
#include "builder.h"
#include "ops.h"
#include "workbench.h"

/* x0 [2, 3], x1 [3]; node 0 t.add_0, node 1 t.exp_1, node 2 t.assign_2 (x0 := exp), update x0. */
static void build(struct workbench *w)
{
    remat_value in[2];
    workbench_open(w);
    workbench_inputs(w, "2,3 3", in);
    remat_value sum = workbench_node(w, "add", in, 2, "", NULL);
    remat_value e = workbench_node(w, "exp", &sum, 1, "", NULL);
    remat_value next = workbench_node(w, "assign", (remat_value[]){in[0], e}, 2, "", NULL);
    workbench_output(w, e);
    w->graph->updates = remat_arena_array(&w->arena, 1, sizeof *w->graph->updates);
    w->graph->updates[0] = (struct remat_update){in[0], next};
    w->graph->update_count = 1;
}

typedef void break_function(struct workbench *w);

static void set_input(struct workbench *w, uint32_t n, uint32_t k, uint32_t value)
{
    struct remat_node_info *node = &w->graph->nodes[n];
    remat_value *inputs = remat_arena_array(&w->arena, node->input_count, sizeof *inputs);
    memcpy(inputs, node->inputs, node->input_count * sizeof *inputs);
    inputs[k].i = value;
    node->inputs = inputs;
}

static void break_nothing(struct workbench *w)
{
    (void)w;
}
static void break_name(struct workbench *w)
{
    w->graph->values[3].name = "x1";
}
static void break_no_name(struct workbench *w)
{
    w->graph->values[3].name = NULL;
}
static void break_order(struct workbench *w)
{
    set_input(w, 0, 1, 3);
}
static void break_range(struct workbench *w)
{
    set_input(w, 0, 1, 99);
}
static void break_shape(struct workbench *w)
{
    w->graph->values[3].shape.dims[0] = 7;
}
static void break_empty(struct workbench *w)
{
    w->graph->values[0].shape.dims[0] = 0;
}
static void break_size(struct workbench *w)
{
    w->graph->values[0].shape.dims[0] = INT64_MAX;
}
static void break_dtype(struct workbench *w)
{
    w->graph->values[0].dtype = (remat_dtype)77;
}
static void break_foreign_dtype(struct workbench *w)
{
    w->graph->values[0].dtype = REMAT_B8;
}
static void break_role(struct workbench *w)
{
    w->graph->values[0].role = REMAT_ROLE_COUNT;
}
static void break_pin(struct workbench *w)
{
    w->graph->values[3].pin = REMAT_PIN_RECOMPUTE + 1;
}
static void break_initializer(struct workbench *w)
{
    w->graph->values[0].initializer = REMAT_INIT_NORMAL + 1;
}
static void break_axes(struct workbench *w)
{
    w->graph->values[0].shape.rank = REMAT_RANK_MAX + 1;
}
static void break_phase(struct workbench *w)
{
    w->graph->nodes[1].phase = REMAT_PHASE_COUNT;
}
static void break_phases(struct workbench *w)
{
    w->graph->nodes[0].phase = REMAT_PHASE_BACKWARD;
}
static void break_result(struct workbench *w)
{
    remat_value *output = remat_arena_array(&w->arena, 1, sizeof *output);
    output->i = 99;
    w->graph->nodes[1].outputs = output;
}
static void break_no_node(struct workbench *w)
{
    w->graph->values[0].node.i = 9;
}
static void break_not_computed(struct workbench *w)
{
    remat_value spare = workbench_input(w, "spare", "3");
    w->graph->values[spare.i].node.i = 1;
}
static void break_op(struct workbench *w)
{
    w->graph->nodes[1].op = REMAT_OP_COUNT;
}
static void break_arity(struct workbench *w)
{
    w->graph->nodes[0].input_count = 1;
}
static void break_producer(struct workbench *w)
{
    w->graph->values[3].node.i = 0;
}
static void break_scope(struct workbench *w)
{
    w->graph->nodes[1].scope.i = 4;
}
static void break_output(struct workbench *w)
{
    w->graph->outputs[0].i = 77;
}
static void break_update(struct workbench *w)
{
    w->graph->updates[0].value.i = 1;
}
/* Two of 40 MiB. */
static void break_constants(struct workbench *w)
{
    static const char zeros[40 << 20]; /* never written: no memory */
    for (uint32_t k = 0; k < 2; k++) {
        remat_value v = workbench_input(w, k ? "second" : "first", "10,1048576");
        w->graph->values[v.i].role = REMAT_ROLE_CONSTANT;
        w->graph->values[v.i].trainable = false;
        w->graph->values[v.i].initializer = REMAT_INIT_NONE;
        w->graph->values[v.i].data = zeros;
    }
}
static void break_trainable(struct workbench *w)
{
    w->graph->values[0].role = REMAT_ROLE_INPUT;
}
static void break_version(struct workbench *w)
{
    workbench_node(w, "neg", (remat_value[]){{0}}, 1, "", NULL);
}
static void break_update_twice(struct workbench *w)
{
    workbench_node(w, "assign", (remat_value[]){{0}, {3}}, 2, "", NULL);
}
static void break_update_view(struct workbench *w)
{
    remat_value x = workbench_input(w, "p", "2,3");
    remat_value view = workbench_node(w, "transpose", &x, 1, "permutation=1,0", NULL);
    workbench_node(w, "assign", (remat_value[]){view, view}, 2, "", NULL);
}
/* c := c + a b, where c is made and read as `c`, `a` and `b` say: values of [3, 3]. */
static void accumulate(struct workbench *w, remat_value c, remat_value a, remat_value b)
{
    workbench_node(w, "matmul_accumulate", (remat_value[]){c, a, b}, 3, "", NULL);
}
static remat_value add_square(struct workbench *w)
{
    remat_value x = workbench_input(w, "square", "3,3");
    return workbench_node(w, "neg", &x, 1, "", NULL);
}
static void break_accumulate_nothing(struct workbench *w)
{
    remat_value c = add_square(w), x = workbench_input(w, "z", "3,3");
    accumulate(w, workbench_node(w, "reshape", &c, 1, "shape=3,3", NULL), x, x);
}
static void break_accumulate_input(struct workbench *w)
{
    remat_value c = workbench_input(w, "z", "3,3"), x = workbench_input(w, "x", "3,3");
    accumulate(w, c, x, x);
}
static void break_accumulate_view(struct workbench *w)
{
    remat_value c = workbench_input(w, "z", "3,3"), x = workbench_input(w, "x", "3,3");
    accumulate(w, workbench_node(w, "reshape", &c, 1, "shape=3,3", NULL), x, x);
}
static void break_accumulate_state(struct workbench *w)
{
    remat_value c = workbench_input(w, "z", "3,3"), x = workbench_input(w, "x", "3,3");
    accumulate(w, c, x, x);
    w->graph->updates[0] = (struct remat_update){c, {w->graph->value_count - 1}};
}
static void break_accumulate_read(struct workbench *w)
{
    remat_value c = add_square(w), x = workbench_input(w, "z", "3,3");
    remat_value view = workbench_node(w, "transpose", &c, 1, "permutation=1,0", NULL);
    workbench_node(w, "exp", &view, 1, "", NULL);
    accumulate(w, c, x, x);
}
static void break_accumulate_itself(struct workbench *w)
{
    remat_value c = add_square(w);
    accumulate(w, c, workbench_input(w, "z", "3,3"), c);
}
/* y := exp(y), and the flag for that. */
static void add_flag(struct workbench *w, remat_value flag)
{
    remat_value x = workbench_input(w, "y", "3");
    remat_value e = workbench_node(w, "exp", &x, 1, "", NULL);
    workbench_node(w, "assign", (remat_value[]){x, e, flag, e}, 4, "", NULL);
}
static void break_flag_nothing(struct workbench *w)
{
    remat_value flag = workbench_input(w, "flag", "i1<2");
    add_flag(w, workbench_node(w, "advance", &flag, 1, "count=1", NULL));
}
static void break_flag_read(struct workbench *w)
{
    remat_value flag = workbench_input(w, "flag", "i1<2"), table = workbench_input(w, "t", "4,2");
    add_flag(w, flag);
    workbench_node(w, "embedding", (remat_value[]){table, flag}, 2, "", NULL);
}
static void break_flag_computed(struct workbench *w)
{
    remat_value flag = workbench_input(w, "flag", "i1<2");
    add_flag(w, workbench_node(w, "concat", &flag, 1, "axis=0", NULL));
}
static void break_attribute(struct workbench *w)
{
    struct remat_attribute *axis = remat_arena_array(&w->arena, 1, sizeof *axis);
    *axis = remat_attribute_int("axis", 0);
    w->graph->nodes[1].attributes = axis;
    w->graph->nodes[1].attribute_count = 1;
}

static const struct {
    break_function *apply;
    const char *message; /* NULL: valid */
} cases[] = {
    {break_nothing, NULL},
    {break_name, "two values are named \"x1\""},
    {break_no_name, "value 3 has no name"},
    {break_order, "node \"t.add_0\" (add): input 1 (\"t.exp_1\") is computed later or not at all"},
    {break_range, "node \"t.add_0\" (add): input 1 is no value"},
    {break_shape, "node \"t.exp_1\" (exp): output 0 is f32 [7, 3], expected f32 [2, 3]"},
    {break_empty, "value \"x0\": an axis is empty"},
    {break_size, "value \"x0\": the shape is too large"},
    {break_dtype, "value \"x0\": unknown type"},
    {break_foreign_dtype, "value \"x0\": its type is one of foreign nodes, and the graph has none"},
    {break_role, "value \"x0\": unknown role"},
    {break_pin, "value \"t.exp_1\": unknown pin"},
    {break_initializer, "value \"x0\": unknown initializer"},
    {break_axes, "value \"x0\": too many axes"},
    {break_phase, "node \"t.exp_1\" (exp): unknown phase"},
    {break_phases,
     "node \"t.exp_1\" (exp): it is of the forward pass, and input 0 (\"t.add_0\") is not"},
    {break_result, "node \"\" (exp): output 0 is no value"},
    {break_no_node, "value \"x0\" names no node"},
    {break_not_computed, "value \"spare\" names a producer that does not compute it"},
    {break_op, "node \"t.exp_1\" (?): unknown op"},
    {break_arity, "node \"t.add_0\" (add): 1 inputs, expected 2"},
    {break_producer, "node \"t.exp_1\" (exp): output 0 (\"t.exp_1\") belongs to another node"},
    {break_scope, "node \"t.exp_1\" (exp): unknown scope"},
    {break_output, "graph output 0 is no value"},
    {break_update, "update of \"x0\" by \"x1\": expected a graph input and a computed value of the "
                   "same type and shape"},
    {break_constants,
     "value \"second\": 41943040 bytes of data, 83886080 with the constants before it; "
     "accepted: 67108864 together"},
    {break_trainable, "value \"x0\": trainable, but no f32 or bf16 parameter"},
    {break_version, "node \"t.neg_3\" (neg): input 0 (\"x0\") has been updated in place by "
                    "\"t.assign_2\""},
    {break_update_twice, "node \"t.assign_3\" (assign): input 0 (\"x0\") has been updated in place "
                         "by \"t.assign_2\""},
    {break_update_view, "node \"t.assign_4\" (assign): input 0 (\"t.transpose_3\") is updated in "
                        "place, but is a part or a transpose of \"p\""},
    {break_accumulate_nothing, NULL},
    {break_accumulate_input,
     "node \"t.matmul_accumulate_3\" (matmul_accumulate): input 0 (\"z\") is updated in place, but "
     "is a graph input without an update: add to a computed value"},
    {break_accumulate_view,
     "node \"t.matmul_accumulate_4\" (matmul_accumulate): input 0 (\"t.reshape_3\") is updated in "
     "place, but is a graph input without an update: add to a computed value"},
    {break_accumulate_state, NULL},
    {break_accumulate_read,
     "node \"t.matmul_accumulate_6\" (matmul_accumulate): input 0 (\"t.neg_3\") "
     "is updated in place, but \"t.exp_5\" reads it too"},
    {break_accumulate_itself, "node \"t.matmul_accumulate_4\" (matmul_accumulate): input 0 "
                              "(\"t.neg_3\") is updated in place, "
                              "but \"t.matmul_accumulate_4\" reads it too"},
    {break_flag_nothing, NULL},
    {break_flag_read, "node \"t.embedding_5\" (embedding): input 1 (\"flag\") is a flag, which is "
                      "read by nothing but what sets it"},
    {break_flag_computed, "node \"t.assign_5\" (assign): input 2 (\"t.concat_3\") is a flag, which "
                          "is a graph input or an update of one"},
    {break_attribute, "node \"t.exp_1\" (exp): unknown attribute \"axis\""},
};

int main(void)
{
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct workbench w;
        build(&w);
        cases[c].apply(&w);
        remat_status st = remat_graph_verify(w.ctx, w.graph);
        const char *message = remat_context_message(w.ctx);
        if (cases[c].message)
            CHECK(st == REMAT_ERROR_INVALID && strcmp(message, cases[c].message) == 0,
                  "case %d: \"%s\", expected \"%s\"", (int)c, message, cases[c].message);
        else
            CHECK(st == REMAT_OK, "case %d: %s", (int)c, message);
        workbench_close(&w);
    }
    return check_exit();
}

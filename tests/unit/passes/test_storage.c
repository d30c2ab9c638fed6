/* SPDX-License-Identifier: Apache-2.0 */
/* Passes after which values have another shape in memory: a rank's parts of parameters, chunks of
 * the loss, rows with a pitch. */
#include "ops.h"
#include "passes.h"
#include "tied.h"

/* On four ranks the table and both other parameters are parts; of 5 columns nothing is. Each is
 * gathered once, right before its first reader, in the scope and phase of that. */
static void check_shard(void)
{
    struct workbench w;
    struct remat_graph *graph;
    workbench_open(&w);
    build_tied(&w);
    remat_value odd = workbench_input(&w, "odd", "5");
    workbench_output(&w, workbench_node(&w, "neg", &odd, 1, "", NULL));
    w.graph->mesh = (struct remat_mesh){1, {{"dp", 4}}};
    w.passes.zero = 1;
    RUN(&w, shard, w.graph, &graph);
    CHECK(remat_graph_hash(graph) == remat_graph_hash(w.graph), "--zero 1 divides no parameter");
    w.passes.zero = 3;
    RUN(&w, shard, w.graph, &graph);
    CHECK(workbench_count(graph, REMAT_OP_gather) == 3, "%u gathers",
          workbench_count(graph, REMAT_OP_gather));
    const struct {
        const char *name, *reader, *scope;
        int64_t elements;
    } parts[] = {{"wte", "embedding", "", 7},
                 {"w", "linear", "layers.0", 12},
                 {"b", "linear", "layers.0", 3}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        remat_value part = workbench_find(graph, parts[k].name);
        const struct remat_value_info *info = &graph->values[part.i];
        uint32_t n = node_of(graph, remat_arena_format(&w.arena, "%s.gathered", parts[k].name));
        uint32_t reader = n + 1;
        while (graph->nodes[reader].op == REMAT_OP_gather)
            reader++;
        CHECK(info->shape.rank == 1 && info->shape.dims[0] == parts[k].elements && info->part &&
                  remat_shape_elements(&info->part->whole) == 4 * parts[k].elements &&
                  graph->nodes[n].inputs[0].i == part.i &&
                  graph->nodes[n].phase == REMAT_PHASE_FORWARD &&
                  strcmp(graph->scopes[graph->nodes[n].scope.i].path, parts[k].scope) == 0 &&
                  strcmp(remat_op_info(graph->nodes[reader].op)->name, parts[k].reader) == 0,
              "\"%s\" in parts", parts[k].name);
        for (uint32_t v = 0; v < graph->node_count; v++)
            for (uint32_t i = 0; i < graph->nodes[v].input_count; i++)
                CHECK(v == n || graph->nodes[v].inputs[i].i != part.i, "node %u reads the part", v);
    }
    CHECK(!graph->values[workbench_find(graph, "odd").i].part, "5 elements on 4 ranks");
done:
    workbench_close(&w);
}

/* The linear and the loss become one node. */
static void check_chunk_loss(void)
{
    struct workbench w;
    struct remat_graph *graph, *joint;
    remat_value in[3], x;
    workbench_open(&w);
    workbench_inputs(&w, "2000,4 9,4 i2000<9", in);
    x = workbench_node(&w, "linear", in, 2, "transpose_weight=1", NULL);
    x = workbench_node(&w, "cross_entropy", (remat_value[]){x, in[2]}, 2, "ignore_index=3", NULL);
    workbench_output(&w, x);
    RUN(&w, chunk_loss, w.graph, &graph);
    CHECK(remat_graph_hash(graph) == remat_graph_hash(w.graph), "no chunks were asked for");
    w.passes.loss_chunk = REMAT_LOSS_CHUNK_AUTO;
    RUN(&w, chunk_loss, w.graph, &graph);
    const struct remat_node_info *node = &graph->nodes[graph->values[graph->outputs[0].i].node.i];
    CHECK(graph->node_count == 1 && node->op == REMAT_OP_linear_cross_entropy &&
              remat_node_int(node, "rows", 0) == 1024 &&
              remat_node_int(node, "ignore_index", 0) == 3 &&
              remat_node_int(node, "transpose_weight", 0) == 1,
          "chunks of 1024 rows");
    RUN(&w, autodiff, graph, &joint);
    CHECK(joint->node_count == 2, "gradients are outputs, beside the seed: %u nodes",
          joint->node_count);
    workbench_node(&w, "neg", (remat_value[]){w.graph->nodes[0].outputs[0]}, 1, "", NULL);
    RUN(&w, chunk_loss, w.graph, &graph);
    CHECK(remat_graph_hash(graph) == remat_graph_hash(w.graph), "somebody else reads the logits");
    w.passes.loss_chunk = 500;
    CHECK_STATUS(w.ctx, remat_pass_chunk_loss(&w.arena, w.graph, &w.passes, &graph),
                 REMAT_ERROR_INVALID, "no chunks of rows");
done:
    workbench_close(&w);
}

/* The value of a product of [2,3,4] and [1, 4, columns], and what reads it. */
static int64_t pitch_of_product(struct workbench *w, int columns, const char *reader,
                                const char *attributes)
{
    struct remat_graph *graph;
    remat_value in[2];
    int64_t pitch = -1;
    workbench_open(w);
    workbench_inputs(w, remat_arena_format(&w->arena, "2,3,4 1,4,%d", columns), in);
    remat_value x = workbench_node(w, "matmul", in, 2, "", NULL), y = x;
    if (*reader)
        y = workbench_node(w, reader, &x, 1, attributes, NULL);
    workbench_output(w, *reader ? workbench_node(w, "neg", &y, 1, "", NULL) : x);
    graph = remat_graph_copy(&w->arena, w->graph, 1);
    remat_pitch(graph);
    pitch = graph->values[x.i].pitch;
    bool follows = strcmp(reader, "neg") == 0; /* what is computed element by element does */
    CHECK(y.i == x.i || graph->values[y.i].pitch == (follows ? pitch : 0),
          "\"%s\" has a pitch of %lld", reader, (long long)graph->values[y.i].pitch);
    CHECK(remat_storage_bytes(&graph->values[x.i]) ==
              (uint64_t)((pitch ? pitch : columns) * 5 + columns) * sizeof(float),
          "storage of a pitch of %lld", (long long)pitch);
    CHECK(remat_value_bytes(&graph->values[x.i]) == (uint64_t)columns * 6 * sizeof(float),
          "bytes of the elements");
    workbench_close(w);
    return pitch;
}

static void check_pitch(void)
{
    static const struct {
        int columns;
        const char *reader, *attributes;
        int64_t pitch;
    } rows[] = {
        {1031, "neg", "", 1088},
        {50257, "neg", "", 50304},
        {1028, "neg", "", 0},                            /* aligned */
        {1030, "neg", "", 1088},                         /* to 8 bytes only */
        {389, "neg", "", 0},                             /* would add 15 % */
        {1031, "", "", 0},                               /* the host reads it */
        {1031, "transpose", "permutation=2,0,1", 1088},  /* a view with strides */
        {1031, "slice", "axis=2 begin=5 end=400", 1088}, /* */
        {1031, "reshape", "shape=6,1031", 1088},         /* joins other axes */
        {1031, "reshape", "shape=2,3093", 0},            /* joins the last axis */
        {1022, "reshape", "shape=2,3,511,2", 1024},      /* splits it */
        {1031, "concat", "axis=0", 0},                   /* another kernel */
    };
    struct workbench w;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t pitch = pitch_of_product(&w, rows[i].columns, rows[i].reader, rows[i].attributes);
        CHECK(pitch == rows[i].pitch, "[.., %d] read by \"%s\": pitch %lld, expected %lld",
              rows[i].columns, rows[i].reader, (long long)pitch, (long long)rows[i].pitch);
    }
}

int main(void)
{
    check_shard();
    check_chunk_loss();
    check_pitch();
    return check_exit();
}

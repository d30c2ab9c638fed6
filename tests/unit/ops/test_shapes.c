/* SPDX-License-Identifier: Apache-2.0 */
/* What inference says of bad nodes, and a few good results. */
#include "builder.h"
#include "view.h"
#include "workbench.h"

static const struct {
    const char *op, *inputs, *attributes, *message;
} cases[] = {
    {"add", "2,3", "", "1 inputs, expected 2"},
    {"linear", "2,3", "", "1 inputs, expected 2 to 3"},
    {"add", "2,3 2", "", "shapes [2, 3] and [2] do not broadcast"},
    {"add", "2,3 i3<4", "", "input 1 has type i32, expected f32"},
    {"add", "2,3 3", "axis=0", "unknown attribute \"axis\""},
    {"slice", "2,3", "axis=0 begin=1", "attribute \"end\" is missing"},
    {"slice", "2,3", "axis=0 begin=0 end=3", "range [0, 3) of an axis of length 2"},
    {"slice", "2,3", "axis=0 begin=1 end=1", "range [1, 1) of an axis of length 2"},
    {"slice", "2,3", "axis=2 begin=0 end=1", "axis 2 of a value of rank 2"},
    {"slice", "2,3", "axis=0 axis=0 begin=0 end=1", "attribute \"axis\" is given twice"},
    {"constant", "", "", "attribute \"value\" is missing"},
    {"constant", "", "value=nan", "attribute \"value\" is not finite"},
    {"row_sum", "-", "", "input 0 has shape [], expected rank at least 1"},
    {"row_max", "i3<2", "", "input 0 has type i32, expected f32"},
    {"reshape", "2,3", "shape=4", "shape [4] has not as many elements as [2, 3]"},
    {"reshape", "2,3", "shape=-2,-3", "axis 0 has length -2"},
    {"reshape", "2,3", "shape=6,1000000000000,1000000000000", "the shape is too large"},
    {"transpose", "2,3", "permutation=0,0", "permutation is not one of the 2 axes of \"x0\""},
    {"transpose", "2,3", "permutation=0", "permutation is not one of the 2 axes of \"x0\""},
    {"pad", "2,3", "axis=1 begin=2 length=4", "3 elements from 2 on do not fit length 4"},
    {"pad", "2,3", "axis=1 begin=0 length=9000000000000000000",
     "the result's shape [2, 9000000000000000000] is too large"},
    {"concat", "2,3 3,3", "axis=1", "input 1 has shape [3, 3], expected [2, 3]"},
    {"concat", "2,3 2", "axis=1", "input 1 has shape [2], expected [2, 3]"},
    {"matmul", "2,3 4,2", "", "shapes [2, 3] and [4, 2] do not multiply"},
    {"matmul", "2,3 2,4", "transpose_b=1", "shapes [2, 3] and [2, 4] (transposed) do not multiply"},
    {"matmul", "2,3 3,2", "transpose_a=2", "attribute \"transpose_a\" is 2, expected 0 or 1"},
    {"matmul", "2,3 1,3,2", "", "input 1 has shape [1, 3, 2], expected rank 2"},
    {"linear", "2,3 4,5", "", "input [2, 3] does not fit weight [4, 5]"},
    {"linear", "2,3 3,5 3", "", "input 2 has shape [3], expected [5]"},
    {"attention", "1,2,2,4 1,2,2,4 1,2,2,4", "", "attribute \"scale\" is missing"},
    {"attention", "1,2,3,4 1,2,2,4 1,2,2,4", "scale=1",
     "3 query heads are no multiple of 2 key heads"},
    {"attention", "1,3,2,4 1,2,2,4 1,2,2,4", "scale=1 causal=1",
     "causal attention of 3 queries to 2 keys: the first queries see no key"},
    {"attention", "1,3,2,4 1,2,2,4 1,2,2,5", "scale=1",
     "input 2 has shape [1, 2, 2, 5], expected [1, 2, 2, 4]"},
    {"attention_backward", "1,3,2,4 1,3,2,4 1,3,2,4 1,3,2,4 1,3,2,4 1,3,2", "scale=1",
     "input 5 has shape [1, 3, 2], expected [1, 2, 3]"},
    {"embedding", "5,3 2", "", "input 1 has type f32, expected i32"},
    {"embedding", "5 i2<5", "", "input 0 has shape [5], expected rank 2"},
    {"embedding_backward", "2,3 i2<5", "rows=0", "a table of 0 rows"},
    {"embedding_backward", "2,3 i3<5", "rows=4", "input 0 has shape [2, 3], expected [3, 3]"},
    {"embedding_accumulate", "5,3 2,4 i2<5", "", "input 1 has shape [2, 4], expected [2, 3]"},
    {"layer_norm", "2,3 3 2", "", "input 2 has shape [2], expected [3]"},
    {"conv2d", "1,2,6,6 3,2,4,3", "", "patches of 4 x 3 do not divide 6 x 6"},
    {"conv2d", "1,2,6,6 3,1,2,2", "", "input 1 has shape [3, 1, 2, 2], expected [3, 2, 2, 2]"},
    {"layer_norm", "2,3 3 3 3", "", "4 inputs, expected 1 to 3"},
    {"embedding", "5,3 i2<5", "padding_idx=5", "attribute \"padding_idx\" is 5, expected 0 to 4"},
    {"embedding", "5,3 i2<5", "padding_idx=-1", "attribute \"padding_idx\" is -1, expected 0 to 4"},
    {"layer_norm", "2,3 3 3", "epsilon=-1", "attribute \"epsilon\" is -1, expected 0 to 1e+30"},
    {"gelu", "i3<2", "", "input 0 has type i32, expected f32 or bf16"},
    {"linear", "2,3 b3,4", "", "input 1 has type bf16, expected f32"},
    {"linear", "b2,3 3,4", "", "input 1 has type f32, expected bf16"},
    {"mul", "b2,3 2,3", "", "input 1 has type f32, expected bf16"},
    {"mul", "2,3 b2,3", "", "input 1 has type bf16, expected f32"},
    {"select", "b2,3 b2,3 b2,3", "", "input 0 has type bf16, expected f32"},
    {"select", "2,3 b2,3 2,3", "", "input 2 has type f32, expected bf16"},
    {"row_sum", "b2,3", "", "input 0 has type bf16, expected f32"},
    {"cast", "2,3", "dtype=1",
     "no cast from f32 to dtype 1 (there are f32 to bf16, 3, and back, 1)"},
    {"cast", "i3<2", "dtype=1",
     "no cast from i32 to dtype 1 (there are f32 to bf16, 3, and back, 1)"},
    {"rope", "1,2,1,3 2,2,2,1", "", "heads of odd length 3"},
    {"rope", "1,2,1,4 2,2,2,1", "", "input 1 has shape [2, 2, 2, 1], expected [2, 2, 2, 2]"},
    {"rope_table", "", "length=4 pairs=0 theta=10000", "a table of 4 positions and 0 pairs"},
    {"rope_table", "", "length=4 pairs=1 theta=1",
     "attribute \"theta\" is 1, expected more than 1, up to 1e+30"},
    {"rope_table", "", "length=4 pairs=1 theta=2 factor=0.5",
     "attribute \"factor\" is 0.5, expected 1 to 1e+30"},
    {"rope_table", "", "length=4 pairs=1 theta=2 low=0",
     "attribute \"low\" is 0, expected more than 0, up to 1e+30"},
    {"rope_table", "", "length=4 pairs=1 theta=2 context=0",
     "attribute \"context\" is 0, expected 1 or more"},
    {"rope_table", "", "length=4 pairs=1 theta=2 low=4 high=4",
     "attribute \"high\" is 4, expected more than \"low\", 4"},
    {"scale", "3", "scale=-1e31", "attribute \"scale\" is -1e+31, expected -1e+30 to 1e+30"},
    {"sgd", "2 2 1", "weight_decay=-1", "attribute \"weight_decay\" is -1, expected 0 to 1000000"},
    {"mask_causal", "3,2 3", "scale=1",
     "causal mask of 3 queries to 2 keys: the first queries see no key"},
    {"dropout", "3 i4<9", "p=1 site=0", "attribute \"p\" is 1, expected 0 up to, not including, 1"},
    {"dropout", "3 i4<9", "p=0.5 site=16777216",
     "attribute \"site\" is 16777216, expected 0 up to, not including, 16777216"},
    {"dropout", "3 i3<9", "p=0.5 site=0", "input 1 has shape [3], expected [4]"},
    {"swiglu", "3 4", "", "input 1 has shape [4], expected [3]"},
    {"rms_norm", "2,3 2", "", "input 1 has shape [2], expected [3]"},
    {"attention", "1,2,2,4 1,2,2,4 1,2,2,4", "scale=1 p=0.5",
     "dropout needs the state of the random generator"},
    {"attention", "1,2,2,4 1,3,2,4 1,3,2,4 _ i1,3<2", "scale=1",
     "input 3 has shape [1, 3], expected [1, 2]"},
    {"attention", "1,2,2,4 1,3,2,4 1,3,2,4 _ _ i1,2<2", "scale=1",
     "input 3 has shape [1, 2], expected [1, 3]"},
    {"attention", "1,2,2,4 1,3,2,4 1,3,2,4 _ _ 1,3", "scale=1",
     "input 3 has type f32, expected i32"},
    {"attention", "1,2,2,4 1,3,2,4 1,3,2,4 _ _ i1,3<2", "scale=1 p=0.5",
     "dropout needs the state of the random generator"},
    {"attention", "1,2,2,4 _ 1,3,2,4 1,3,2,4", "scale=1",
     "operand 1 is absent, which is not optional or follows the last"},
    {"attention", "1,2,2,4 1,3,2,4 1,3,2,4", "scale=1 window=2",
     "a window of 2 keys slides over 3 (accepted: up to 2 keys)"},
    {"attention", "1,2,2,4 1,3,2,4 1,3,2,4", "scale=1 window=-1",
     "attribute \"window\" is -1, expected 0 or more"},
    {"mask_causal", "2,3 2", "scale=1 window=2",
     "a window of 2 keys slides over 3 (accepted: up to 2 keys)"},
    {"gelu", "3", "approximate=2", "attribute \"approximate\" is 2, expected 0 or 1"},
    {"cross_entropy", "2,3 i3<3", "", "input 1 has shape [3], expected [2]"},
    {"cross_entropy", "2,3 i2<3", "classes=0",
     "attribute \"classes\" is 0, expected 1 to 3, the columns"},
    {"cross_entropy", "2,3 i2<3", "classes=4",
     "attribute \"classes\" is 4, expected 1 to 3, the columns"},
    {"cross_entropy", "1,16777217 i1<3", "", "16777217 columns: f32 counts exactly up to 16777216"},
    {"linear_cross_entropy", "2,1 1,16777217 i2<5", "",
     "16777217 columns: f32 counts exactly up to 16777216"},
    {"mask_causal", "1,16777217 1", "scale=1",
     "16777217 columns: f32 counts exactly up to 16777216"},
    {"linear_cross_entropy", "2,3 3,5 i2<5", "classes=6",
     "attribute \"classes\" is 6, expected 1 to 5, the columns"},
    {"linear_cross_entropy", "2,3 3,5 i3<5", "", "input 2 has shape [3], expected [2]"},
    {"linear_cross_entropy", "2,3 4,5 i2<5", "", "input [2, 3] does not fit weight [4, 5]"},
    {"linear_cross_entropy", "2,3 3,5 i2<5 4", "", "input 3 has shape [4], expected [5]"},
    {"linear_cross_entropy", "35,3 3,5 i35<5", "rows=2",
     "35 rows in chunks of 2: there are at most 16 chunks, of 3 rows or more"},
    {"matmul_accumulate", "2,3 2,4 4,5", "", "input 0 has shape [2, 3], expected [2, 5]"},
    {"adamw_coefficients", "1 i1<9", "beta1=1 beta2=0.9 weight_decay=0",
     "attribute \"beta1\" is 1, expected 0 up to, not including, 1"},
    {"adamw", "2 2 2 3 4", "beta1=0 beta2=0 epsilon=0", "input 3 has shape [3], expected [2]"},
    {"adamw", "2 i2<3 2 2 4", "beta1=0 beta2=0 epsilon=0",
     "input 1 has type i32, expected f32 or bf16"},
    {"adamw", "2 b2 2 2 4", "beta1=0 beta2=0 epsilon=0", "inputs 1 and 2 have different types"},
    {"adamw", "2 2 2 2 4 1", "beta1=0 beta2=0 epsilon=0", "input 5 has type f32, expected i32"},
    {"sgd", "2 2 1 i2<2", "weight_decay=0", "input 3 has shape [2], expected [1]"},
    {"assign", "2 3", "", "input 1 has shape [3], expected [2]"},
    {"assign", "2 2 i1<2", "", "a flag, but nothing that sets it"},
    {"assign", "2 2 1 2", "", "input 2 has type f32, expected i32"},
    {"assign", "2 2 i1<2 3", "", "input 3 has shape [3], expected [2]"},
    {"batch_slice", "6,2 i1<2", "", "attribute \"count\" is missing"},
    {"batch_slice", "6,2 i1<2", "count=4", "a batch of 6 in 4 parts"},
    {"batch_slice", "6,2 i1<2", "count=0", "a count of 0"},
    {"batch_slice", "- i1<2", "count=2", "input 0 has shape [], expected rank at least 1"},
    {"batch_slice", "6,2 1", "count=2", "input 1 has type f32, expected i32"},
    {"batch_slice", "6,2 i2<2", "count=2", "input 1 has shape [2], expected [1]"},
    {"advance", "i2<2", "count=2", "input 0 has shape [2], expected [1]"},
    {"advance", "i1<2", "count=4294967296", "a count of 4294967296"},
    {"part_number", "i1<2 i1<2", "count=0", "a count of 0"},
    {"part_number", "i1<2 i1<2", "count=65537", "a count of 65537"},
    {"own_ids", "i6<2 i1<2", "count=0", "a count of 0"},
    {"own_ids", "i6<2 i1<2", "count=2147483648", "a count of 2147483648"},
    {"own_ids", "i6<2 i2<2", "count=3", "input 1 has shape [2], expected [1]"},
    {"exchange", "6,2", "group=0 ranks=1", "1 ranks, accepted: 2 to 256"},
    {"exchange", "6,2", "group=0 ranks=257", "257 ranks, accepted: 2 to 256"},
    {"exchange", "6,2", "group=2 ranks=4", "group 2 of a mesh of at most 2 axes"},
    {"gather", "4", "group=0 ranks=4 shape=2,5", "a part of 4 elements of shape [2, 5] on 4 ranks"},
    {"gather", "2", "group=0 ranks=4 shape=2,5", "a part of 2 elements of shape [2, 5] on 4 ranks"},
    {"column", "-", "", "input 0 has shape [], expected rank at least 1"},
};

static void check_message(size_t c)
{
    struct workbench w;
    remat_value inputs[8];
    workbench_open(&w);
    uint32_t count = workbench_inputs(&w, cases[c].inputs, inputs);
    workbench_node(&w, cases[c].op, inputs, count, cases[c].attributes, NULL);
    const char *message = remat_context_message(w.ctx);
    char expected[300];
    snprintf(expected, sizeof expected, "building %s for \"t\": %s", cases[c].op, cases[c].message);
    CHECK(w.status == REMAT_ERROR_INVALID && strcmp(message, expected) == 0,
          "%s(%s; %s): \"%s\", expected \"%s\"", cases[c].op, cases[c].inputs, cases[c].attributes,
          message, expected);
    workbench_close(&w);
}

static void check_kind(void)
{
    struct workbench w;
    workbench_open(&w);
    const struct remat_attribute value = remat_attribute_int("value", 1);
    remat_value out;
    CHECK_STATUS(w.ctx, remat_build_checked(&w.b, REMAT_OP_constant, NULL, 0, &value, 1, &out),
                 REMAT_ERROR_INVALID, "attribute \"value\" must be a number");
    workbench_close(&w);
}

/* A node that a rewrite cannot have meant is no lack of memory, nor is one of large results. */
struct building {
    struct workbench w;
};

static remat_status build_wrong(void *user)
{
    struct building *building = user;
    const struct remat_attribute value = remat_attribute_int("value", 1);
    remat_build(&building->w.b, REMAT_OP_constant, NULL, 0, &value, 1, NULL);
    return REMAT_OK;
}

static remat_status build_large(void *user)
{
    struct building *building = user;
    remat_value rng;
    const int64_t dims[] = {INT64_C(1) << 31, INT64_C(1) << 31};
    const struct remat_attribute attributes[] = {remat_attribute_ints("shape", dims, 2),
                                                 remat_attribute_int("site", 0)};
    workbench_inputs(&building->w, "i4<9", &rng);
    remat_build(&building->w.b, REMAT_OP_random, &rng, 1, attributes, 2, NULL);
    return REMAT_OK;
}

static void check_unwinding(void)
{
    struct building building;
    workbench_open(&building.w);
    remat_context *c = building.w.ctx;
    CHECK_STATUS(c, remat_guard(c, build_wrong, &building), REMAT_ERROR_INTERNAL,
                 "attribute \"value\" must be a number");
    CHECK_STATUS(c, remat_guard(c, build_large, &building), REMAT_ERROR_INVALID,
                 "the result's shape [2147483648, 2147483648] is too large");
    workbench_close(&building.w);
}

/* Reshaping strided views: joining q of qkv is none, splitting its heads is one. */
static void check_layout(void)
{
    struct workbench w;
    remat_value x;
    workbench_open(&w);
    workbench_inputs(&w, "2,4,12", &x);
    remat_value slice = workbench_node(&w, "slice", &x, 1, "axis=2 begin=4 end=8", NULL);
    remat_value heads = workbench_node(&w, "reshape", &slice, 1, "shape=2,4,2,2", NULL);
    remat_value turned = workbench_node(&w, "transpose", &heads, 1, "permutation=0,2,1,3", NULL);
    CHECK_OK(w.ctx, w.status, "layout");
    CHECK(remat_storage_root(w.graph, turned).i == x.i, "storage root");
    struct remat_view view = remat_view_of(w.graph, turned);
    CHECK(view.root.i == x.i && view.offset_elements == 4 && view.rank == 4 && view.shape[1] == 2 &&
              view.shape[2] == 4 && view.strides[0] == 48 && view.strides[1] == 2 &&
              view.strides[2] == 12 && view.strides[3] == 1,
          "layout of a transposed slice");
    workbench_node(&w, "reshape", &slice, 1, "shape=8,4", NULL);
    CHECK_OK(w.ctx, w.status, "rows of a slice");
    uint32_t copies = workbench_count(w.graph, REMAT_OP_concat);
    remat_build_reshape(&w.b, slice, (int64_t[]){2, 16}, 2);
    CHECK(w.status == REMAT_OK && workbench_count(w.graph, REMAT_OP_concat) == copies + 1,
          "the builder's reshape copies where it must");
    workbench_node(&w, "reshape", &turned, 1, "shape=32", NULL);
    CHECK(strstr(remat_context_message(w.ctx), "cannot be reshaped without a copy"),
          "strided reshape: %s", remat_context_message(w.ctx));
    workbench_close(&w);
}

static void check_flops(void)
{
    struct workbench w;
    remat_value in[6];
    workbench_open(&w);
    workbench_inputs(&w, "4,2,3 3,5 1,4,2,8 1,6,1,8 1,6,1,8 4,2,3", in);
    workbench_node(&w, "linear", in, 2, "", NULL);
    workbench_node(&w, "attention", in + 2, 3, "scale=1 causal=1", NULL);
    workbench_node(&w, "exp", in, 1, "", NULL);
    const uint64_t expected[] = {2 * 8 * 15, (3 + 4 + 5 + 6) * 2 * (32 + 20), 24 * 30};
    for (uint32_t n = 0; n < 3; n++) {
        const struct remat_node_info *node = &w.graph->nodes[n];
        uint64_t flops = remat_op_info(node->op)->flops(w.graph, node);
        CHECK(flops == expected[n], "%s: %llu flops", remat_op_info(node->op)->name,
              (unsigned long long)flops);
    }
    workbench_close(&w);
}

int main(void)
{
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        check_message(c);
    check_kind();
    check_unwinding();
    check_layout();
    check_flops();
    return check_exit();
}

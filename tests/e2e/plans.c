#include "plans.h"

static const char *const act[] = {"*.mlp.act"};
static const char *const attention[] = {"*/attn/core"};
static const char *const qkv[] = {"*/attn/qkv"};

#define UNIFORM(k)                                                                                 \
    {                                                                                              \
        .recompute_granularity = "full", .recompute_method = "uniform",                            \
        .has_recompute_num_layers = true, .recompute_num_layers = (k)                              \
    }
#define BLOCK(k)                                                                                   \
    {                                                                                              \
        .recompute_granularity = "full", .recompute_method = "block",                              \
        .has_recompute_num_layers = true, .recompute_num_layers = (k)                              \
    }

const struct named_policy named_policies[] = {
    {"none", {0}},
    {"uniform 1", UNIFORM(1)},
    {"uniform 2", UNIFORM(2)},
    {"uniform all", UNIFORM(4)},
    {"block 1", BLOCK(1)},
    {"block 3", BLOCK(3)},
    {"selective core_attn", {.recompute_granularity = "selective"}},
    {"selective mlp", {.recompute_granularity = "selective", .recompute_modules = "mlp"}},
    {"selective layernorm",
     {.recompute_granularity = "selective", .recompute_modules = "layernorm,core_attn"}},
    {"every 2", {.ac_mode = "selective", .ac_option = "2"}},
    {"op", {.ac_mode = "selective", .ac_option = "op"}},
    {"op attention", {.ac_mode = "selective", .ac_option = "op", .save_ops = "attention"}},
    {"op linear,gelu", {.ac_mode = "selective", .ac_option = "op", .save_ops = "linear,gelu"}},
    {"pin recompute act", {.recompute_count = 1, .recompute = act}},
    {"full, save attention",
     {.recompute_granularity = "full",
      .recompute_method = "uniform",
      .save_count = 1,
      .save = attention}},
    {"pin recompute qkv", {.recompute_count = 1, .recompute = qkv}},
};
const unsigned named_policy_count = sizeof named_policies / sizeof named_policies[0];

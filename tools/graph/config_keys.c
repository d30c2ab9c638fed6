/* SPDX-License-Identifier: Apache-2.0 */
#include "config_keys.h"

#include "config.h"

#include <stdlib.h>

const struct config_type config_types[] = {
    {gpt2, "GPT2LMHeadModel", {.name = "gpt2", .family = REMAT_FAMILY_gpt2}},
    {bigcode,
     "GPTBigCodeForCausalLM",
     {.name = "gpt_bigcode", .family = REMAT_FAMILY_gpt2, .by_output = true}},
    {llama, "LlamaForCausalLM", {.name = "llama", .family = REMAT_FAMILY_llama}},
    {mistral, "MistralForCausalLM", {.name = "mistral", .family = REMAT_FAMILY_llama}},
    {qwen2, "Qwen2ForCausalLM", {.name = "qwen2", .family = REMAT_FAMILY_llama, .qkv_bias = true}},
    {qwen3, "Qwen3ForCausalLM", {.name = "qwen3", .family = REMAT_FAMILY_llama, .qk_norm = true}},
    {phi3, "Phi3ForCausalLM", {.name = "phi3", .family = REMAT_FAMILY_llama, .fused = true}},
    {bert, "BertForMaskedLM", {.name = "bert", .family = REMAT_FAMILY_bert}},
    {marian, "MarianMTModel", {.name = "marian", .family = REMAT_FAMILY_encdec}},
    {0},
};

const struct config_key config_keys[] = {
#define ROW(types, key, kind, required, offset, text, absent)                                      \
    {types, key, kind, required, offset, text, absent},
#define MEMBER(member)           offsetof(struct remat_model_settings, member)
#define SIZE(types, key, member) ROW(types, key, SIZE, true, MEMBER(member), NULL, 0)
#define OPTIONAL_SIZE(types, key, member, absent)                                                  \
    ROW(types, key, SIZE, false, MEMBER(member), NULL, absent)
#define NUMBER(types, key, member, absent)                                                         \
    ROW(types, key, NUMBER, false, MEMBER(member), #member, absent)
#define BOOLEAN(types, key, member) ROW(types, key, BOOLEAN, false, MEMBER(member), NULL, 0)
#define DEPARTURE(types, key, member, usual)                                                       \
    ROW(types, key, DEPARTURE, false, MEMBER(member), NULL, usual)
#define SWITCH(types, key, member)        ROW(types, key, SWITCH, false, MEMBER(member), NULL, 0)
#define ACTIVATION(types, key, absent)    ROW(types, key, ACTIVATION, false, 0, absent, 0)
#define FIXED(types, key, value)          ROW(types, key, FIXED, false, 0, value, 0)
#define FOR_PLANS(types, key, value)      ROW(types, key, FOR_PLANS, false, 0, value, 0)
#define EQUAL(types, key, other)          ROW(types, key, EQUAL, true, 0, other, 0)
#define OPTIONAL_EQUAL(types, key, other) ROW(types, key, EQUAL, false, 0, other, 0)
#define DROPOUT(types, key, member, absent)                                                        \
    ROW(types, key, DROPOUT, false, MEMBER(member), NULL, absent)
#define NO_DROPOUT(types, key) ROW(types, key, NO_DROPOUT, false, 0, NULL, 0)
#define READ(types, key)       ROW(types, key, OTHER, false, 0, NULL, 0)
#define IGNORED(key)           ROW(any, key, OTHER, false, 0, NULL, 0)
#include "config.def"
    {0},
};

const char *remat_config_type(uint32_t k)
{
    return k + 1 < sizeof config_types / sizeof *config_types ? config_types[k].settings.name
                                                              : NULL;
}

const char *remat_config_types(struct remat_arena *arena)
{
    struct remat_text names = {.arena = arena};
    for (const struct config_type *type = config_types; type->set; type++)
        remat_text_append(&names, "%s%s", names.items ? ", " : "", type->settings.name);
    remat_text_complete(&names);
    return names.items;
}

const char *config_print(struct remat_arena *arena, const json_t *root)
{
    static const size_t digits[] = {15, 17};
    char *text = NULL;
    bool equal = false;
    for (size_t k = 0; !equal && k < sizeof digits / sizeof *digits; k++) {
        free(text);
        text = json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(digits[k]));
        json_t *again = text ? json_loads(text, 0, NULL) : NULL;
        equal = json_equal(root, again);
        json_decref(again);
    }
    const char *out = text ? remat_arena_string(arena, text, strlen(text)) : NULL;
    free(text);
    return out;
}

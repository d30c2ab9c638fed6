/* SPDX-License-Identifier: Apache-2.0 */
#include "families.h"

#include <fnmatch.h>

/* clang-format off */
static const struct family families[] = {
    {"gpt2", "wte.weight", "transformer.", "", "GPT2LMHeadModel", {{NULL}}, FEED_NEXT,
     {{"h.*.attn.bias", EXTRA_IGNORED, NULL}, /* the causal mask */
      {"h.*.attn.masked_bias", EXTRA_IGNORED, NULL},
      {"lm_head.weight", EXTRA_EQUAL, "wte.weight"}}},
    {"llama", "model.embed_tokens.weight", "", "model.", "AutoModelForCausalLM", {{NULL}}, FEED_NEXT,
     {{"model.*rotary_emb.inv_freq", EXTRA_IGNORED, NULL},
      {"lm_head.weight", EXTRA_EQUAL, "model.embed_tokens.weight"}}},
    {"bert", "bert.embeddings.word_embeddings.weight", "", "bert.", "BertForMaskedLM",
     {{"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}}, FEED_MASKED,
     {{"bert.embeddings.position_ids", EXTRA_IGNORED, NULL},
      {"bert.pooler.*", EXTRA_IGNORED, NULL},
      {"cls.seq_relationship.*", EXTRA_IGNORED, NULL},
      {"cls.predictions.decoder.weight", EXTRA_EQUAL, "bert.embeddings.word_embeddings.weight"},
      {"cls.predictions.decoder.bias", EXTRA_EQUAL, "cls.predictions.bias"}}},
    {"marian", "model.shared.weight", "", "model.", "MarianMTModel", {{NULL}}, FEED_NEXT,
     {{"model.*.embed_positions.weight", EXTRA_IGNORED, NULL}, /* sines, computed */
      {"model.*.embed_tokens.weight", EXTRA_EQUAL, "model.shared.weight"},
      {"lm_head.weight", EXTRA_EQUAL, "model.shared.weight"},
      {"final_logits_bias", EXTRA_ZERO, NULL}}},
};
/* clang-format on */

const struct family *family_of(const remat_plan *plan)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (remat_plan_find_tensor(plan, families[i].embeddings) != UINT32_MAX)
            return &families[i];
    return NULL;
}

static const char *rename_end(const struct family *family, const char *name,
                              char buffer[FAMILY_NAME_BYTES])
{
    for (size_t i = 0; i < 2 && family->renamed[i][0]; i++) {
        size_t length = strlen(name), end = strlen(family->renamed[i][0]);
        if (length < end || strcmp(name + length - end, family->renamed[i][0]) != 0)
            continue;
        int count = snprintf(buffer, FAMILY_NAME_BYTES, "%.*s%s", (int)(length - end), name,
                             family->renamed[i][1]);
        return count >= 0 && count < FAMILY_NAME_BYTES ? buffer : NULL;
    }
    return name;
}

void family_names(const struct family *family, const char *name, struct family_names *out)
{
    const char *const prefixes[] = {ADAPTER_PREFIX, family->prefix};
    for (size_t i = 0; i < 2; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            name += strlen(prefixes[i]);
    name = rename_end(family, name, out->buffers[0]);
    out->names[0] = name;
    out->names[1] = NULL;
    if (!name || !*family->body)
        return;
    int count = snprintf(out->buffers[1], FAMILY_NAME_BYTES, "%s%s", family->body, name);
    if (count >= 0 && count < FAMILY_NAME_BYTES)
        out->names[1] = out->buffers[1];
}

bool is_adapter(const remat_tensor_info *tensor)
{
    return tensor->role == REMAT_TENSOR_PARAMETER &&
           fnmatch("*.lora_[AB].weight", tensor->name, 0) == 0;
}

bool has_adapters(const remat_plan *plan)
{
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++) {
        remat_tensor_info tensor = {.struct_size = sizeof tensor};
        if (remat_plan_get_tensor(plan, i, &tensor) && is_adapter(&tensor))
            return true;
    }
    return false;
}

const struct extra_tensor *family_extra(const struct family *family, const char *name)
{
    for (size_t i = 0; i < FAMILY_EXTRAS_MAX && family->extras[i].pattern; i++)
        if (fnmatch(family->extras[i].pattern, name, 0) == 0)
            return &family->extras[i];
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "module.h"

const struct remat_module_info remat_modules[REMAT_MODULE_COUNT] = {
    [REMAT_MODULE_CORE_ATTN] = {"core_attn", "attn/core", "attention", false},
    [REMAT_MODULE_MLP] = {"mlp", "mlp", "MLP", false},
    [REMAT_MODULE_LAYERNORM] = {"layernorm", "ln, ln_*, norm* or *norm", "norms", true},
    [REMAT_MODULE_MOE] = {"moe", "moe", "mixture of experts", false},
    [REMAT_MODULE_MOE_ACT] = {"moe_act", "moe_act", "mixture of experts", true},
    [REMAT_MODULE_SHARED_EXPERTS] = {"shared_experts", "shared_experts", "shared experts", false},
    [REMAT_MODULE_MLA_UP_PROJ] = {"mla_up_proj", "mla_up_proj", "multi-latent attention", true},
    [REMAT_MODULE_GDN_NORM_OUT] = {"gdn_norm_out", "gdn_norm_out", "gated delta net", true},
    [REMAT_MODULE_GDP_IN_PROJ] = {"gdp_in_proj", "gdp_in_proj", "linear attention", true},
    [REMAT_MODULE_GDP_QKV] = {"gdp_qkv", "gdp_qkv", "linear attention", true},
    [REMAT_MODULE_MHC] = {"mhc", "mhc", "hyper-connections", true},
};

bool remat_list_next(const char **rest, struct remat_word *out)
{
    if (!*rest)
        return false;
    size_t length = strcspn(*rest, ",");
    *out = (struct remat_word){*rest, (int)length};
    *rest = (*rest)[length] ? *rest + length + 1 : NULL;
    return true;
}

bool remat_word_is(struct remat_word word, const char *text)
{
    return strlen(text) == (size_t)word.length && memcmp(word.text, text, (size_t)word.length) == 0;
}

uint32_t remat_module_mask(const char *list)
{
    uint32_t mask = 0;
    struct remat_word word;
    while (remat_list_next(&list, &word))
        for (uint32_t m = 0; m < REMAT_MODULE_COUNT; m++)
            if (remat_word_is(word, remat_modules[m].name))
                mask |= 1u << m;
    return mask;
}

/* The rest of a path after the layer's element: "attn/core" of "h.3/attn/core", "" of "h.3". */
static const char *path_in_layer(const struct remat_scope *scope)
{
    const char *rest = scope->path + strlen(scope->stack);
    rest += strcspn(rest, "/");
    return *rest == '/' ? rest + 1 : rest;
}

static bool is_norm(struct remat_word element)
{
    if (element.length >= 4 && (memcmp(element.text, "norm", 4) == 0 ||
                                memcmp(element.text + element.length - 4, "norm", 4) == 0))
        return true;
    return remat_word_is(element, "ln") ||
           (element.length > 3 && memcmp(element.text, "ln_", 3) == 0);
}

uint32_t remat_modules_of(const struct remat_scope *scope)
{
    struct remat_word previous = {"", 0}, element;
    uint32_t mask = 0;
    for (const char *rest = scope->layer < 0 ? "" : path_in_layer(scope); *rest;) {
        element = (struct remat_word){rest, (int)strcspn(rest, "/")};
        if (remat_word_is(previous, "attn") && remat_word_is(element, "core"))
            mask |= 1u << REMAT_MODULE_CORE_ATTN;
        if (remat_word_is(element, "mlp"))
            mask |= 1u << REMAT_MODULE_MLP;
        if (is_norm(element))
            mask |= 1u << REMAT_MODULE_LAYERNORM;
        for (uint32_t m = REMAT_MODULE_MOE; m < REMAT_MODULE_COUNT; m++)
            if (remat_word_is(element, remat_modules[m].name))
                mask |= 1u << m;
        previous = element;
        rest += element.length + (rest[element.length] == '/');
    }
    return mask;
}

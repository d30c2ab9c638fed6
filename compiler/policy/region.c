/* SPDX-License-Identifier: Apache-2.0 */
#include "region.h"

const struct remat_module_info remat_modules[REMAT_MODULE_COUNT] = {
    [REMAT_MODULE_CORE_ATTN] = {"core_attn", "attn/core", false},
    [REMAT_MODULE_MLP] = {"mlp", "mlp", false},
    [REMAT_MODULE_LAYERNORM] = {"layernorm", "ln*, norm* or *norm", true},
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

/* The rest of a path behind the layer's element: "attn/core" of "h.3/attn/core", "" of "h.3". */
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
        previous = element;
        rest += element.length + (rest[element.length] == '/');
    }
    return mask;
}

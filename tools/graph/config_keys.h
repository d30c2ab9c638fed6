/* SPDX-License-Identifier: Apache-2.0 */
/* Model types, and the keys of their config.json: rows of config.def. Private to config_*.c. */
#ifndef REMAT_CONFIG_KEYS_H
#define REMAT_CONFIG_KEYS_H

#include "model_settings.h"

#include <jansson.h>

/* Sets of model types. */
enum {
    gpt2 = 1 << 0,
    llama = 1 << 1,
    mistral = 1 << 2,
    qwen2 = 1 << 3,
    qwen3 = 1 << 4,
    phi3 = 1 << 5,
    bert = 1 << 6,
    marian = 1 << 7,
    bigcode = 1 << 8,
    gpts = gpt2 | bigcode,
    llamas = llama | mistral | qwen2 | qwen3 | phi3,
    any = gpts | llamas | bert | marian
};

struct config_type {
    uint32_t set;
    const char *architecture;             /* the model with the head that the graph has */
    struct remat_model_settings settings; /* what the type alone says */
};
extern const struct config_type config_types[]; /* `set` is 0 after the last */

enum config_kind {
    SIZE,
    NUMBER,
    BOOLEAN,
    DEPARTURE,
    SWITCH,
    ACTIVATION,
    FIXED,
    FOR_PLANS,
    EQUAL,
    DROPOUT,
    NO_DROPOUT,
    OTHER
};

struct config_key {
    uint32_t types;
    const char *name;
    enum config_kind kind;
    bool required;
    size_t offset;    /* the member of the settings, where there is one */
    const char *text; /* of FIXED, FOR_PLANS: the value as JSON; of EQUAL: the other key; of
                         ACTIVATION: what an absent key means; of NUMBER: the attribute that it
                         becomes */
    double absent;    /* of SIZE, NUMBER, DEPARTURE, DROPOUT: the same */
};
extern const struct config_key config_keys[]; /* `name` is NULL after the last */

static inline bool config_has(const json_t *value)
{
    return value && !json_is_null(value);
}

/* In a line, with as few digits as give the same numbers again. NULL: out of memory, which the tool
 * tells at its end. */
const char *config_print(struct remat_arena *arena, const json_t *root);

#endif

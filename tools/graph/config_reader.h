/* SPDX-License-Identifier: Apache-2.0 */
/* Reads values of a config.json. Private to config_*.c. */
#ifndef REMAT_CONFIG_READER_H
#define REMAT_CONFIG_READER_H

#include "config_keys.h"

#define SIZE_MOST (1 << 24)

struct config {
    remat_context *ctx;
    struct remat_arena *arena;
    const char *path;
    json_t *root;
    uint32_t type; /* one of the set */
    bool with_dropout, plan_only;
    struct remat_model_settings *out;
};

/* "KEY is VALUE" */
const char *config_describe(const struct config *c, const char *key, const json_t *value);
/* "PATH: KEY is VALUE (accepted: ACCEPTED)" */
remat_status config_refuse(const struct config *c, const char *key, const json_t *value,
                           const char *accepted);
void config_add_reason(const struct config *c, const char *reason);
/* Notes a key that the graph leaves out although the model has it, which changes neither memory nor
 * time. */
remat_status config_leave_out(const struct config *c, const char *key, const json_t *value,
                              const char *accepted);
/* *out stays where the key is absent; null is 0. */
remat_status config_read_integer(const struct config *c, const struct config_key *row,
                                 int64_t *out);
/* A number above 0 that the attribute may be; *out stays where the key is absent. */
remat_status config_read_number(const struct config *c, const json_t *object, const char *key,
                                const char *attribute, double *out);
remat_status config_read_boolean(const struct config *c, const char *key, bool *out);

/* config_rope.c: rotary positions and layers of the Llama family. */
remat_status config_read_rope(const struct config *c, struct remat_model_settings *s);

#endif

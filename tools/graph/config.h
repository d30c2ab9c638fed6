/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from a Hugging Face config.json of a model type that has a row in config_keys.c. */
#ifndef REMAT_MODEL_CONFIG_H
#define REMAT_MODEL_CONFIG_H

#include "model_settings.h"

/* Keys are those of config.def: any other, and a value that the family cannot build, is
 * REMAT_ERROR_USAGE; the message names the key, its value and what is accepted. A file that is no
 * JSON object is REMAT_ERROR_INVALID. seq is at most 2048 and the sliding window; the rest is as
 * remat_model_defaults has it. Dropout is read only with `with_dropout`: without it, it is 0
 * whatever the file says. With `plan_only` what changes neither memory nor time is left out where
 * it cannot be built, and out->plan_only says what that is. */
remat_status remat_model_config(remat_context *ctx, struct remat_arena *arena, const char *path,
                                bool with_dropout, bool plan_only,
                                struct remat_model_settings *out);

/* The same of a text; `path` begins messages. */
remat_status remat_model_config_parse(remat_context *ctx, struct remat_arena *arena,
                                      const char *path, const char *data, size_t bytes,
                                      bool with_dropout, bool plan_only,
                                      struct remat_model_settings *out);

/* The model types in order, then NULL; and separated by commas. */
const char *remat_config_type(uint32_t k);
const char *remat_config_types(struct remat_arena *arena);
/* A config.json, in a line, from which Hugging Face's library makes the model of these settings:
 * that of settings->config, if there is one, with all keys of config.def that the settings decide,
 * without what it says of layers and tokens that they leave out.
 * NULL: the family has no such model, or the text would be too long for a graph. */
const char *remat_model_config_text(struct remat_arena *arena,
                                    const struct remat_model_settings *settings);

#endif

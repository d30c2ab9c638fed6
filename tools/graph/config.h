/* Settings from a Hugging Face config.json of model type gpt2, llama, bert or marian. */
#ifndef REMAT_MODEL_CONFIG_H
#define REMAT_MODEL_CONFIG_H

#include "models.h"

/* What the file leaves open is as a preset leaves it; seq is at most 2048. A setting that the
 * family cannot build is REMAT_ERROR_USAGE; the message names it, its value and what is accepted.
 * Keys that do not change the training graph are ignored, and so is dropout, which an option gives.
 */
remat_status remat_model_config(remat_context *ctx, struct remat_arena *arena, const char *path,
                                struct remat_model_settings *out);

#endif

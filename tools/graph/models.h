/* SPDX-License-Identifier: Apache-2.0 */
/* The model generator: training graphs of model families, forward and loss only, at composite
 * level. Sizes come from presets, settings or a Hugging Face config.json (config.h). A family is
 * one file (gpt2.c), a row of the table in models.c and one of model_settings.c, a preset a row of
 * models.def, an activation a row of activation.c. */
#ifndef REMAT_MODELS_H
#define REMAT_MODELS_H

#include "model_settings.h"

/* --- presets.c --- */

/* Settings of a preset ("gpt2-124m"), which may have an alias, or of a family ("gpt2"), which
 * leaves its sizes to be given. batch is 1, seq the whole context or the preset's, the optimizer
 * AdamW with PyTorch's defaults.
 */
remat_status remat_model_preset(remat_context *ctx, const char *name,
                                struct remat_model_settings *out);
/* The presets' names in order, then NULL. */
const char *remat_model_name(uint32_t preset);
/* NULL: the preset has no other name. */
const char *remat_model_alias(const char *preset);

/* --- models.c --- */

/* Builds and verifies the graph. A bad setting is REMAT_ERROR_USAGE; the message names the setting
 * as an option (--heads), its value and what is accepted. A glob of the settings that matches no
 * parameter is one, and so is freezing all. With a batch of 1 the graph has its `pair`. */
remat_status remat_model_generate(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_model_settings *settings,
                                  struct remat_graph **out);

/* symbols.c: as remat_model_generate, with batch, seq and, for families that have it, source_seq as
 * symbols, which have the lengths that are set as their values. */
remat_status remat_model_generate_symbolic(remat_context *ctx, struct remat_arena *arena,
                                           const struct remat_model_settings *settings,
                                           struct remat_graph **out);

/* remake.c: finds the settings again from which a graph was made, by the graph's config.json and
 * what it shows itself; its symbols have values. The same graph is made of them, but for names:
 * else *why says what is missing, and *out is not to be used. */
remat_status remat_model_remake(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_graph *graph, struct remat_model_settings *out,
                                const char **why);

#endif

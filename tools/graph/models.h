/* The model generator: training graphs of model families, forward and loss only, at composite
 * level, in fp32. Sizes come from presets and settings. A family is one file (gpt2.c) and a row of
 * the table in models.c; a preset is a row of models.def. */
#ifndef REMAT_MODELS_H
#define REMAT_MODELS_H

#include "graph.h"

enum remat_model_family { REMAT_FAMILY_mlp, REMAT_FAMILY_gpt2, REMAT_FAMILY_COUNT };

struct remat_model_settings { /* 0: not given; what a family has no use for must be 0 */
    enum remat_model_family family;
    const char *name; /* of the graph */
    int64_t layers, width, heads;
    int64_t vocab;   /* number of token ids */
    int64_t context; /* positions that the parameters provide for */
    int64_t batch, seq;
    struct remat_optimizer optimizer;
};

/* Settings of a preset ("gpt2-124m"), or of a family ("gpt2"), which leaves its sizes to be given.
 * batch is 1, seq the whole context, the optimizer AdamW with PyTorch's defaults. */
remat_status remat_model_preset(remat_context *ctx, const char *name,
                                struct remat_model_settings *out);
uint32_t remat_model_preset_count(void);
const char *remat_model_preset_name(uint32_t preset);

/* Builds and verifies the graph. A bad setting is REMAT_ERROR_USAGE; the message names the setting
 * as an option (--heads), its value and what is accepted. */
remat_status remat_model_generate(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_model_settings *settings,
                                  struct remat_graph **out);

#endif

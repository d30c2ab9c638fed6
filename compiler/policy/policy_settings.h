/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REMAT_POLICY_SETTINGS_H
#define REMAT_POLICY_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

/* The settings as given: NULL or unset means the option was absent. Strings are borrowed. */
struct remat_policy_settings {
    const char *recompute_granularity; /* none full selective */
    bool recompute_activations;
    const char *recompute_method; /* uniform block */
    bool has_recompute_num_layers;
    int64_t recompute_num_layers;
    const char *recompute_num_layers_text; /* as typed, for messages; NULL: the number */
    const char *recompute_modules;         /* comma-separated */
    const char *ac_mode;                   /* none full selective */
    const char *ac_option;                 /* a number, "op" or "attention" */
    const char *save_ops;                  /* comma-separated */
    bool enable_activation_checkpointing;
    bool gradient_checkpointing;
    const char *gradient_checkpointing_kwargs; /* every_n_layers=2, {"every_n_layers": 2} */
    const char *selective_checkpointing;       /* "true", or ops, comma-separated */
    bool distribute_saved_activations;
    uint32_t save_count, recompute_count; /* pins */
    const char *const *save;
    const char *const *recompute;
};

#endif

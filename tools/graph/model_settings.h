/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the model generator, and what families take where they are not given. */
#ifndef REMAT_MODEL_SETTINGS_H
#define REMAT_MODEL_SETTINGS_H

#include "graph.h"

enum remat_model_family {
    REMAT_FAMILY_mlp,
    REMAT_FAMILY_gpt2,
    REMAT_FAMILY_llama,
    REMAT_FAMILY_bert,
    REMAT_FAMILY_encdec,
    REMAT_FAMILY_COUNT
};

struct remat_activation; /* activation.h */
struct remat_globs {     /* of fnmatch(3), over names of parameters */
    const char *const *items;
    uint32_t count;
};

struct remat_model_settings { /* 0: not given; what a family has no use for must be 0 */
    enum remat_model_family family;
    const char *name; /* of the graph */
    int64_t layers;   /* of each stack */
    int64_t width, heads;
    int64_t kv_heads;       /* heads of keys and values; default: heads (GPT-2, Llama) */
    int64_t head_size;      /* elements of a head; default: width / heads */
    int64_t window;         /* of sliding attention, 0: none; sequences must not be longer */
    int64_t hidden;         /* width inside the MLP; default: 4 width */
    int64_t vocab;          /* number of token ids */
    int64_t vocab_multiple; /* to which their rows are padded; default: 1 */
    int64_t context;        /* positions that the model provides for; most that learned ones have */
    int64_t batch, seq;
    int64_t source_seq;                        /* tokens for the encoder; default: seq */
    const struct remat_activation *activation; /* of MLPs; default: the family's */
    double epsilon;                            /* of the norms; default: the family's */
    double theta;                              /* of rotary positions */
    double rope_factor, rope_low, rope_high;   /* Llama 3's scaling; factor 0: none */
    int64_t rope_context;                      /* that the model was scaled up from */
    double rotary_part;  /* of a head that positions turn, at its beginning; 0: all of it (Llama) */
    bool tied;           /* the head is the embedding (Llama) */
    bool qkv_bias;       /* of the products for queries, keys and values (Llama) */
    bool attention_bias; /* of those and of attention's output (Llama) */
    bool mlp_bias;       /* (Llama) */
    bool qk_norm;        /* queries and keys have norms (Llama) */
    bool fused;          /* one product for queries, keys and values, one for gate and up (Llama) */
    bool no_bias;        /* linears and norms have none; they are `by_output` (GPT-2) */
    bool by_output;      /* weights of linears are [outputs, inputs] (GPT-2) */
    bool by_head;        /* their product has q, k and v of one head after another (GPT-2) */
    bool unscaled_scores;     /* of attention, by its size of heads (GPT-2) */
    bool scores_by_layer;     /* layer i, from 0, divides attention's by i + 1 (GPT-2) */
    bool scaled_embedding;    /* times sqrt(width) (encoder-decoder) */
    int64_t token_types;      /* 0: 2 (BERT) */
    remat_dtype dtype;        /* of weights and activations; default: f32 */
    double dropout;           /* probability, in [0, 1) */
    double attention_dropout; /* of attention's probabilities; if not `attention_apart`: dropout */
    bool attention_apart;
    bool written_out;  /* attention as products and softmax */
    bool forward_only; /* parameters are frozen, there is no optimizer */
    struct remat_optimizer optimizer;
    /* Without these every parameter trains, and weight decay is for weights of linears that are no
     * embeddings; a parameter in several has the last mark. */
    struct remat_globs decay, no_decay, freeze;
    struct remat_lora {
        int64_t rank; /* 0: no adapters; else they are all that trains */
        /* Weights of linears that have one, by a glob, or by names of modules as peft takes them:
         * "q_proj,v_proj". NULL: those of all in layers. */
        const char *targets;
        double alpha; /* an adapter counts alpha / rank times; default: 2 rank */
    } lora;
    const char *config;    /* the file that they are from, in a line; NULL: a preset */
    const char *plan_only; /* what of that file the graph leaves out; NULL: nothing */
};

/* Sets what a preset leaves open: batch 1, AdamW with PyTorch's defaults, f32. */
void remat_model_defaults(struct remat_model_settings *settings);

/* So that seq is at most the context; computed positions go on. */
bool remat_model_learns_positions(const struct remat_model_settings *settings);

/* Elements of a head that rotary positions turn, as transformers rounds them down. */
int64_t remat_model_rotary_size(const struct remat_model_settings *settings);

/* Derives the settings that are not given from those that are. */
void remat_model_complete(struct remat_model_settings *settings);

/* A bad setting is REMAT_ERROR_USAGE; the message names it as an option (--heads), its value and
 * what is accepted. */
remat_status remat_model_check(remat_context *ctx, const struct remat_model_settings *settings);

#endif

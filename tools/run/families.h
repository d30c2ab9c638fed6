/* SPDX-License-Identifier: Apache-2.0 */
/* The families of remat-graph, as far as they differ for this tool: their checkpoints and how a
 * text feeds them. Parameters of a plan have the names and layouts of Hugging Face's checkpoints,
 * so a table holds only what else is in those. */
#ifndef REMAT_TOOLS_RUN_FAMILIES_H
#define REMAT_TOOLS_RUN_FAMILIES_H

#include "run.h"

enum feeding {
    FEED_NEXT,   /* targets are the next bytes; with an encoder, its source the window before */
    FEED_MASKED, /* some tokens are replaced, and only they have targets */
};

/* A tensor of a checkpoint that no parameter of a plan has. */
struct extra_tensor {
    const char *pattern; /* of fnmatch(3) */
    enum { EXTRA_IGNORED, EXTRA_EQUAL, EXTRA_ZERO } must_be;
    const char *other; /* of EXTRA_EQUAL: the tensor that it is tied to */
};

#define FAMILY_EXTRAS_MAX 8
struct family {
    const char *name;
    const char *embeddings; /* the parameter with a row for each token id; marks the family */
    const char *prefix;     /* that names in a checkpoint may have in addition; or "" */
    const char *body;       /* prefix in a plan of all but the head, which names in a checkpoint of
                               AutoModel lack, as it lacks the head; or "" */
    const char *whole;      /* the class that has the head */
    const char *renamed[2][2]; /* old suffix, suffix; or NULL */
    enum feeding feeding;
    struct extra_tensor extras[FAMILY_EXTRAS_MAX]; /* up to the first without pattern */
};

/* NULL when the plan has none of the tables of token embeddings. */
const struct family *family_of(const remat_plan *plan);

#define FAMILY_NAME_BYTES 1024
/* The possible names in a plan of a tensor in a file of weights, the likelier one first; NULL:
 * there is no other. Each is `name`, or its end, or in a buffer. */
struct family_names {
    const char *names[2];
    char buffers[2][FAMILY_NAME_BYTES];
};
void family_names(const struct family *family, const char *name, struct family_names *out);
/* In files of weights the names of adapters (LoRA) are those of Hugging Face's peft:
 * ADAPTER_PREFIX, the family's prefix, then the name in the plan. */
#define ADAPTER_PREFIX "base_model.model."
bool is_adapter(const remat_tensor_info *tensor);
bool has_adapters(const remat_plan *plan);

/* NULL: none. */
const struct extra_tensor *family_extra(const struct family *family, const char *name);

#endif

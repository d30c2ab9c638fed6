/* SPDX-License-Identifier: Apache-2.0 */
/* Names by which hosts know data: tensors', and those of gradients in a trace, which a file of
 * gradients has too. */
#include "verify.h"

#include <stdlib.h>

struct named {
    const char *name;
    uint32_t index; /* of the tensor, or of the command that writes it */
};

static int compare(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* The second one of two neighbours of one name, or NULL. */
static const struct named *find_twice(struct named *items, size_t count)
{
    if (count)
        qsort(items, count, sizeof *items, compare);
    for (size_t i = 1; i < count; i++)
        if (compare_names(&items[i - 1], &items[i]) == 0)
            return &items[i];
    return NULL;
}

static remat_status verify_gradients(struct remat_verifier *v, const struct named *tensors)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = v->program;
    struct REMAT_LIST(struct named) list = {0};
    for (uint32_t i = 0; i < p->command_count; i++)
        for (uint32_t k = p->commands[i].operand_begin; k < p->commands[i].operand_end; k++) {
            const struct remat_program_value *value = &p->values[p->operands[k].value];
            const struct named gradient = {value->name, i};
            if (value->role == REMAT_ROLE_GRADIENT && p->operands[k].access != REMAT_ACCESS_READ &&
                !(p->tensor_count &&
                  bsearch(&gradient, tensors, p->tensor_count, sizeof *tensors, compare_names)))
                REMAT_TRY_PUSH(&v->scratch, &list, gradient);
        }
    const struct named *twice = find_twice(list.items, list.count);
    if (twice)
        return remat_verify_error(v, "commands", twice->index, p->commands[twice->index].name,
                                  "it writes the gradient \"%.200s\", as commands[%u] does",
                                  twice->name, twice[-1].index);
fail:
    return st;
}

remat_status remat_verify_names(struct remat_verifier *v)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = v->program;
    struct named *tensors;
    REMAT_TRY_NEW(&v->scratch, tensors, p->tensor_count);
    for (uint32_t i = 0; i < p->tensor_count; i++)
        tensors[i] = (struct named){p->tensors[i].name, i};
    const struct named *twice = find_twice(tensors, p->tensor_count);
    if (twice)
        return remat_verify_error(v, "tensors", twice->index, twice->name,
                                  "tensors[%u] has its name", twice[-1].index);
    REMAT_TRY(verify_gradients(v, tensors));
fail:
    return st;
}

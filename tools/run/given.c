/* SPDX-License-Identifier: Apache-2.0 */
#include "given.h"

#include "restore.h"
#include "safetensors.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define LABEL "--input"

static bool get_tensor(const remat_plan *plan, uint32_t index, remat_tensor_info *out)
{
    *out = (remat_tensor_info){.struct_size = sizeof *out};
    return remat_plan_get_tensor(plan, index, out);
}

struct type_text {
    char text[200];
};
/* As a safetensors file has it: "I32 [16]". */
static struct type_text type_text(const remat_tensor_info *tensor)
{
    struct type_text out;
    remat_tensor_info whole = safetensors_whole(tensor);
    snprintf(out.text, sizeof out.text, "%s %s", safetensors_dtype(tensor->element),
             shape_text(whole.shape, whole.rank).text);
    return out;
}

/* --- what has to be given --- */

static uint32_t access_of(const remat_plan *plan, const char *entry, uint32_t tensor)
{
    for (uint32_t e = 0; e < remat_plan_entry_count(plan); e++)
        if (strcmp(remat_plan_entry_name(plan, e), entry) == 0)
            return remat_plan_entry_access(plan, e, tensor);
    return 0;
}

/* A constant that "init" does not write is the host's. */
static bool is_host_written(const remat_plan *plan, uint32_t i, const remat_tensor_info *tensor)
{
    return tensor->role == REMAT_TENSOR_INPUT ||
           (tensor->role == REMAT_TENSOR_CONSTANT &&
            !(access_of(plan, "init", i) & REMAT_ENTRY_WRITES));
}

/* An entry point reads it, and neither "init" nor this tool writes it. */
static bool is_needed(const struct model *model, const char *const *entries, uint32_t i,
                      remat_tensor_info *tensor)
{
    uint32_t access = 0;
    if (!get_tensor(model->plan, i, tensor) || !is_host_written(model->plan, i, tensor) ||
        model_writes(tensor->name) || access_of(model->plan, "init", i) & REMAT_ENTRY_WRITES)
        return false;
    for (; *entries; entries++)
        access |= access_of(model->plan, *entries, i);
    return access & REMAT_ENTRY_READS;
}

static bool is_given(const struct given_inputs *given, uint32_t tensor)
{
    for (uint32_t i = 0; i < given->count; i++)
        if (given->inputs[i].tensor == tensor)
            return true;
    return false;
}

static remat_status check_all(remat_context *ctx, const struct given_inputs *given,
                              const struct model *model, const char *const *entries)
{
    remat_tensor_info tensor;
    for (uint32_t i = 0; i < remat_plan_tensor_count(model->plan); i++)
        if (is_needed(model, entries, i, &tensor) && !is_given(given, i))
            return cli_error(ctx, REMAT_ERROR_USAGE,
                             "nothing writes the plan's input \"%s\", %s: give it with " LABEL
                             " %s=FILE.safetensors",
                             tensor.name, type_text(&tensor).text, tensor.name);
    return REMAT_OK;
}

/* --- what is given --- */

/* Names may have any character: the plan says where one ends. */
static remat_status find_input(remat_context *ctx, const remat_plan *plan, const char *option,
                               uint32_t *index, const char **path)
{
    remat_tensor_info tensor;
    size_t longest = 0;
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++) {
        size_t length;
        if (!get_tensor(plan, i, &tensor) || !is_host_written(plan, i, &tensor) ||
            (length = strlen(tensor.name)) < longest || strncmp(option, tensor.name, length) != 0 ||
            option[length] != '=')
            continue;
        longest = length;
        *index = i;
        *path = option + length + 1;
    }
    if (longest ? !**path : !strchr(option, '='))
        return cli_error(ctx, REMAT_ERROR_USAGE, LABEL " '%s' is not NAME=FILE", option);
    if (!longest)
        return cli_error(ctx, REMAT_ERROR_USAGE, LABEL " '%s': the plan has no input \"%.*s\"",
                         option, (int)strcspn(option, "="), option);
    get_tensor(plan, *index, &tensor);
    if (model_writes(tensor.name))
        return cli_error(ctx, REMAT_ERROR_USAGE, LABEL " '%s': remat-run writes \"%s\" itself",
                         option, tensor.name);
    return REMAT_OK;
}

/* The tensor of the input's name, or the only one. */
static remat_status find_tensor(remat_context *ctx, const remat_tensor_info *input,
                                struct given_input *given)
{
    const struct safetensors_file *file = &given->file;
    for (uint32_t i = 0; i < file->count; i++)
        if (file->count == 1 || strcmp(file->tensors[i].name, input->name) == 0)
            given->from = &file->tensors[i];
    if (!given->from)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: tensor \"%s\", %s in the plan, is missing (the file has %u)",
                         file->path, input->name, type_text(input).text, file->count);
    const struct safetensors_tensor *from = given->from;
    remat_tensor_info whole = safetensors_whole(input);
    if (strcmp(from->dtype, safetensors_dtype(input->element)) == 0 && from->rank == whole.rank &&
        memcmp(from->shape, whole.shape, whole.rank * sizeof *whole.shape) == 0)
        return REMAT_OK;
    return cli_error(ctx, REMAT_ERROR_INVALID,
                     "%s: tensor \"%s\" is %s %s, the plan's input \"%s\" %s", file->path,
                     from->name, from->dtype, shape_text(from->shape, from->rank).text, input->name,
                     type_text(input).text);
}

remat_status given_open(remat_context *ctx, const char *const *options, uint32_t count,
                        const struct model *model, const char *const *entries,
                        struct remat_outputs *outputs, struct given_inputs *out)
{
    remat_status st = REMAT_OK;
    remat_tensor_info input;
    out->inputs = calloc(count + 1, sizeof *out->inputs);
    if (!out->inputs)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    for (uint32_t i = 0; i < count; i++) {
        struct given_input *given = &out->inputs[i];
        const char *path;
        RUN_TRY(find_input(ctx, model->plan, options[i], &given->tensor, &path));
        get_tensor(model->plan, given->tensor, &input);
        if (is_given(out, given->tensor))
            RUN_FAIL(ctx, REMAT_ERROR_USAGE, LABEL " '%s': \"%s\" is given twice", options[i],
                     input.name);
        out->count++;
        RUN_TRY(remat_outputs_input(outputs, LABEL, path));
        RUN_TRY(safetensors_read_file(ctx, path, &given->file));
        RUN_TRY(find_tensor(ctx, &input, given));
    }
    RUN_TRY(check_all(ctx, out, model, entries));
fail:
    return st;
}

/* The same whatever the order of the options, and of the tensors of another plan. */
remat_status given_hash(remat_context *ctx, const struct given_inputs *given,
                        const remat_plan *plan, uint64_t *out)
{
    remat_status st = REMAT_OK;
    char *part = malloc(RESTORE_BYTES);
    *out = 0;
    if (!part)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    for (uint32_t i = 0; i < given->count; i++) {
        const struct given_input *input = &given->inputs[i];
        remat_tensor_info tensor;
        get_tensor(plan, input->tensor, &tensor);
        uint64_t hash = XXH64(tensor.name, strlen(tensor.name), 0);
        for (uint64_t at = 0, bytes; at < input->from->bytes; at += bytes) {
            bytes = input->from->bytes - at;
            bytes = bytes < RESTORE_BYTES ? bytes : RESTORE_BYTES;
            RUN_TRY(safetensors_read_part(ctx, &input->file, input->from, at, part, bytes));
            hash = XXH64(part, bytes, hash);
        }
        *out += hash;
    }
fail:
    free(part);
    return st;
}

remat_status given_write(remat_context *ctx, const struct given_inputs *given,
                         const remat_plan *plan, uint32_t rank, remat_session *session)
{
    remat_status st = REMAT_OK;
    char *buffer = given->count ? malloc(RESTORE_BYTES) : NULL;
    if (given->count && !buffer)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    for (uint32_t i = 0; i < given->count && st == REMAT_OK; i++) {
        const struct given_input *input = &given->inputs[i];
        remat_tensor_info tensor;
        get_tensor(plan, input->tensor, &tensor);
        st = restore_tensor(ctx, &input->file, input->from, &tensor, rank, session, buffer);
        if (st == REMAT_ERROR_INVALID) /* an index, of which the session knows no file */
            st = cli_error(ctx, st, "%s: %s", input->file.path, remat_context_message(ctx));
    }
    free(buffer);
    return st;
}

void given_release(struct given_inputs *given)
{
    for (uint32_t i = 0; i < given->count; i++)
        safetensors_release(&given->inputs[i].file);
    free(given->inputs);
    *given = (struct given_inputs){0};
}

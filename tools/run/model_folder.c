/* SPDX-License-Identifier: Apache-2.0 */
#include "model_folder.h"

#include "families.h"
#include "json_file.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

bool model_folder_is_meant(const char *path)
{
    struct stat info;
    size_t length = strlen(path);
    return (length && path[length - 1] == '/') || (stat(path, &info) == 0 && S_ISDIR(info.st_mode));
}

static remat_status name_file(remat_context *ctx, const char *folder, const char *name,
                              char out[PATH_MAX])
{
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    if (length + strlen(name) + 2 > PATH_MAX)
        return cli_file_error(ctx, folder, "", ENAMETOOLONG);
    snprintf(out, PATH_MAX, "%.*s/%s", (int)length, folder, name);
    return REMAT_OK;
}

remat_status model_folder_claim(remat_context *ctx, struct remat_outputs *outputs,
                                const char *label, const char *path, struct model_folder *out)
{
    remat_status st = REMAT_OK;
    RUN_TRY(name_file(ctx, path, "model.safetensors", out->weights));
    RUN_TRY(name_file(ctx, path, "config.json", out->config));
    out->path = path;
    out->made = mkdir(path, 0777) == 0;
    if (!out->made && errno != EEXIST)
        RUN_TRY(cli_file_error(ctx, path, "cannot be made: ", errno));
    RUN_TRY(remat_outputs_claim(outputs, label, out->weights));
    RUN_TRY(remat_outputs_claim(outputs, label, out->config));
fail:
    return st;
}

static remat_status read_config(remat_context *ctx, const struct model_folder *folder,
                                const remat_plan *plan, json_t **out)
{
    remat_plan_info info = {.struct_size = sizeof info};
    remat_plan_get_info(plan, &info);
    *out = json_loads(info.config, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(*out))
        return REMAT_OK;
    json_decref(*out);
    *out = NULL;
    return cli_error(ctx, REMAT_ERROR_INVALID,
                     "%s: the plan's graph has no config.json of its model, as remat-graph makes "
                     "it for models that Hugging Face has: write the weights alone, to a FILE",
                     folder->path);
}

remat_status model_folder_check(remat_context *ctx, const struct model_folder *folder,
                                const remat_plan *plan)
{
    json_t *config = NULL;
    if (!folder->path)
        return REMAT_OK;
    if (has_adapters(plan))
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: of a plan with adapters only these are written: name a FILE for them",
                         folder->path);
    remat_status st = read_config(ctx, folder, plan, &config);
    json_decref(config);
    return st;
}

/* Of the parameters, as PyTorch names it. */
static const char *dtype_of(const remat_plan *plan)
{
    remat_tensor_info tensor = {.struct_size = sizeof tensor};
    for (uint32_t i = 0; remat_plan_get_tensor(plan, i, &tensor); i++)
        if (tensor.role == REMAT_TENSOR_PARAMETER)
            switch (tensor.element) {
#define DTYPE(NAME, name, number, bytes, infinity, file, torch, ...)                               \
    case REMAT_ELEMENT_##NAME:                                                                     \
        return torch;
#include <remat/dtypes.def>
            }
    return "float32";
}

remat_status model_folder_write_config(remat_context *ctx, struct remat_outputs *outputs,
                                       const struct model_folder *folder, const remat_plan *plan)
{
    json_t *config;
    remat_status st = read_config(ctx, folder, plan, &config);
    if (st)
        return st;
    /* Older versions of the library have the longer name. */
    json_object_set_new(config, "torch_dtype", json_string(dtype_of(plan)));
    json_object_set_new(config, "dtype", json_string(dtype_of(plan)));
    return json_file_write(ctx, outputs, folder->config, config, 2);
}

void model_folder_abandon(const struct model_folder *folder)
{
    if (folder->made)
        rmdir(folder->path);
}

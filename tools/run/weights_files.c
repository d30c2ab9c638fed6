/* SPDX-License-Identifier: Apache-2.0 */
#include "weights_files.h"

#include "checkpoint.h"
#include "files.h"
#include "tool.h"

#include <stdlib.h>
#include <sys/stat.h>

#define INDEX_BYTES_MAX 32000000u /* of models of 10^12 parameters it has a third */

struct weights_search {
    remat_context *ctx;
    struct remat_arena *arena;
    struct remat_outputs *outputs;
    struct weights_files *out;
};

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool is_json(const char *path)
{
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".json") == 0;
}

/* The file `name` in a folder, the first `length` bytes of a path. */
static remat_status join_path(const struct weights_search *s, const char *path, size_t length,
                              const char *name, const char **out)
{
    *out = cli_join(s->arena, path, length, name);
    return *out ? REMAT_OK : cli_error(s->ctx, REMAT_ERROR_MEMORY, "%s: out of memory", path);
}

static remat_status add_file(const struct weights_search *s, const char *path)
{
    const char **grown =
        realloc(s->out->paths, (s->out->count + (size_t)1) * sizeof *s->out->paths);
    if (!grown)
        return cli_error(s->ctx, REMAT_ERROR_MEMORY, "%s: out of memory", path);
    s->out->paths = grown;
    s->out->paths[s->out->count++] = path;
    return remat_outputs_input(s->outputs, "--init", path);
}

/* --- an index --- */

static remat_status read_json(remat_context *ctx, const char *path, json_t **out)
{
    remat_status st = REMAT_OK;
    FILE *file = NULL;
    uint64_t bytes;
    json_error_t error;
    RUN_TRY(cli_open_file(ctx, path, &file, &bytes));
    if (bytes > INDEX_BYTES_MAX)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "%s: an index of %llu bytes (accepted: at most %u)",
                 path, (unsigned long long)bytes, INDEX_BYTES_MAX);
    *out = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    if (!*out && json_error_code(&error) == json_error_out_of_memory)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "%s: out of memory", path);
    if (!*out)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "%s:%d: bad JSON", path, error.line);
fail:
    if (file)
        fclose(file);
    return st;
}

/* A name in the index's own folder. */
static bool is_plain_name(const char *name)
{
    return name && *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !strchr(name, '/');
}

/* The files of a "weight_map", each once. */
static remat_status collect_shards(remat_context *ctx, const char *path, const json_t *index,
                                   json_t *shards)
{
    const char *tensor;
    json_t *map = json_object_get(index, "weight_map"), *value;
    if (!json_is_object(map) || json_object_size(map) == 0)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: no index of weights: it has no \"weight_map\"", path);
    json_object_foreach(map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (!is_plain_name(name))
            return cli_error(ctx, REMAT_ERROR_INVALID,
                             "%s: tensor \"%s\": its file is not the name of one in this folder",
                             path, tensor);
        if (json_object_set_new(shards, name, json_true()) != 0)
            return cli_error(ctx, REMAT_ERROR_MEMORY, "%s: out of memory", path);
    }
    return REMAT_OK;
}

static remat_status add_shards(const struct weights_search *s, const char *path, json_t *shards)
{
    remat_status st = REMAT_OK;
    const char *slash = strrchr(path, '/'), *name, *file, *missing = NULL;
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
    uint32_t missing_count = 0;
    struct stat info;
    json_t *value;
    json_object_foreach(shards, name, value)
    {
        RUN_TRY(join_path(s, path, folder, name, &file));
        if (stat(file, &info) != 0) {
            missing = missing ? missing : file;
            missing_count++;
        }
        RUN_TRY(add_file(s, file));
    }
    if (missing)
        RUN_FAIL(s->ctx, REMAT_ERROR_IO, "%s: files missing: %u of %zu, first %s", path,
                 missing_count, json_object_size(shards), missing);
fail:
    return st;
}

static remat_status add_index(const struct weights_search *s, const char *path)
{
    remat_status st = REMAT_OK;
    json_t *index = NULL, *shards = json_object();
    if (!shards)
        RUN_FAIL(s->ctx, REMAT_ERROR_MEMORY, "%s: out of memory", path);
    RUN_TRY(read_json(s->ctx, path, &index));
    RUN_TRY(collect_shards(s->ctx, path, index, shards));
    RUN_TRY(add_shards(s, path, shards));
fail:
    json_decref(index);
    json_decref(shards);
    return st;
}

/* --- a folder --- */

static const char *const accepted[] = {"model.safetensors", "model.safetensors.index.json",
                                       "adapter_model.safetensors"};
static const char *const others[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                     "adapter_model.bin", "tf_model.h5", "flax_model.msgpack"};
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The first of the names that is there; NULL: none is. */
static remat_status find_name(const struct weights_search *s, const char *folder,
                              const char *const *names, size_t count, const char **out)
{
    remat_status st = REMAT_OK;
    for (size_t i = 0; i < count; i++) {
        struct stat info;
        RUN_TRY(join_path(s, folder, strlen(folder), names[i], out));
        if (lstat(*out, &info) == 0) /* a link to nothing is told when it is opened */
            return REMAT_OK;
    }
    *out = NULL;
fail:
    return st;
}

static remat_status add_folder(const struct weights_search *s, const char *folder)
{
    remat_status st = REMAT_OK;
    const char *found;
    RUN_TRY(find_name(s, folder, accepted, COUNT(accepted), &found));
    if (found)
        return is_json(found) ? add_index(s, found) : add_file(s, found);
    RUN_TRY(find_name(s, folder, others, COUNT(others), &found));
    if (found)
        RUN_FAIL(s->ctx, REMAT_ERROR_INVALID,
                 "%s: no safetensors: load the model and write them, as save_pretrained() of "
                 "transformers does",
                 found);
    if (checkpoint_is_there(folder))
        RUN_FAIL(s->ctx, REMAT_ERROR_INVALID,
                 "%s: it has checkpoints of a run, with which --resume goes on", folder);
    RUN_FAIL(s->ctx, REMAT_ERROR_INVALID, "%s: a folder without %s, %s or %s", folder, accepted[0],
             accepted[1], accepted[2]);
fail:
    return st;
}

remat_status weights_files_find(remat_context *ctx, struct remat_arena *arena,
                                const char *const *named, uint32_t count,
                                struct remat_outputs *outputs, struct weights_files *out)
{
    const struct weights_search search = {ctx, arena, outputs, out};
    remat_status st = REMAT_OK;
    for (uint32_t i = 0; i < count && st == REMAT_OK; i++)
        st = is_folder(named[i]) ? add_folder(&search, named[i])
             : is_json(named[i]) ? add_index(&search, named[i])
                                 : add_file(&search, named[i]);
    return st;
}

void weights_files_release(struct weights_files *files)
{
    free(files->paths);
    *files = (struct weights_files){0};
}

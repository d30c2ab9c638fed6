/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint.h"

#include "file_part.h"
#include "restore.h"
#include "safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT "remat-checkpoint/2"
enum { KEPT = 2, NAME_BYTES = 40 };

/* What lasts from one step to the next. */
static bool lasts(const remat_tensor_info *tensor)
{
    return tensor->role == REMAT_TENSOR_PARAMETER || tensor->role == REMAT_TENSOR_OPTIMIZER_STATE;
}

#define SCHEDULE "schedule"
static const struct metadata_number { /* u64, or double; those of options have their ranges */
    const char *key;
    size_t offset;
    bool is_real, may_be_missing; /* then 0 */
    double least, most;
} numbers[] = {
#define AT(member) offsetof(struct checkpoint_state, member)
#define ANY        0x1p64
    {"step", AT(step), false, false, 1, ANY},
    {"seed", AT(seed), false, false, 0, ANY},
    {"batch", AT(batch), false, false, 0, ANY},
    {"seq", AT(seq), false, false, 0, ANY},
    {"data_size", AT(data_size), false, false, 0, ANY},
    {"data_hash", AT(data_hash), false, false, 0, ANY},
    {"input_hash", AT(input_hash), false, true, 0, ANY},
    {"parts", AT(microbatches), false, true, 1, ANY},
    {"lr", AT(schedule.lr), true, false, 0, 3e38},
    {"min_lr", AT(schedule.min_lr), true, false, 0, 3e38},
    {"warmup", AT(schedule.warmup), false, false, 0, 1e9},
    {"decay_steps", AT(schedule.steps), false, false, 0, 1e9},
#undef ANY
#undef AT
};
#define NUMBERS (sizeof numbers / sizeof *numbers)

static json_t *print_number(const struct checkpoint_state *state,
                            const struct metadata_number *number)
{
    uint64_t whole;
    double real;
    memcpy(&whole, (const char *)state + number->offset, sizeof whole);
    memcpy(&real, (const char *)state + number->offset, sizeof real);
    return number->is_real ? json_sprintf("%.17g", real) : json_sprintf("%" PRIu64, whole);
}

/* False: the text is no such number, as print_number writes it, or one out of its range. */
static bool parse_number(const char *text, const struct metadata_number *number,
                         struct checkpoint_state *state)
{
    char *end = NULL;
    errno = 0;
    if (!text || *text < '0' || *text > '9' || text[strspn(text, "0123456789.e+-")])
        return false;
    double real = strtod(text, &end); /* one below the least normal one is no error */
    errno = isfinite(real) ? 0 : ERANGE;
    uint64_t whole = number->is_real ? 0 : strtoull(text, &end, 10);
    memcpy((char *)state + number->offset, number->is_real ? (void *)&real : (void *)&whole,
           sizeof whole);
    double value = number->is_real ? real : (double)whole;
    return !*end && !errno && value >= number->least && value <= number->most;
}

/* --- the folder --- */

/* False: the name is no checkpoint's. */
static bool parse_name(const char *name, uint64_t *step)
{
    char again[NAME_BYTES];
    *step = strncmp(name, "step-", 5) == 0 ? strtoull(name + 5, NULL, 10) : 0;
    snprintf(again, sizeof again, CHECKPOINT_NAME, *step);
    return *step > 0 && strcmp(name, again) == 0;
}

/* The newest steps, the last one first; 0 where there are fewer. */
static remat_status find_newest(remat_context *ctx, const char *folder, uint64_t newest[KEPT])
{
    DIR *listing = opendir(folder);
    memset(newest, 0, KEPT * sizeof *newest);
    if (!listing)
        return cli_file_error(ctx, folder, "", errno);
    for (struct dirent *entry; (entry = readdir(listing));) {
        uint64_t step;
        if (!parse_name(entry->d_name, &step) || step <= newest[KEPT - 1])
            continue;
        newest[KEPT - 1] = step;
        for (int i = KEPT - 1; i > 0 && newest[i - 1] < newest[i]; i--) {
            uint64_t other = newest[i];
            newest[i] = newest[i - 1];
            newest[i - 1] = other;
        }
    }
    closedir(listing);
    return REMAT_OK;
}

bool checkpoint_is_there(const char *folder)
{
    DIR *listing = opendir(folder);
    bool found = false;
    uint64_t step;
    for (struct dirent *entry; listing && !found && (entry = readdir(listing));)
        found = parse_name(entry->d_name, &step);
    if (listing)
        closedir(listing);
    return found;
}

/* The name of a file that a killed process was about to give a checkpoint's name. */
static bool is_leftover(const char *name)
{
    return fnmatch("step-*.safetensors.*-*.remat-tmp", name, 0) == 0;
}

/* And what killed processes left: no other one writes here. Of those that cannot be removed nothing
 * is lost. */
static void remove_older(const char *folder, uint64_t than)
{
    DIR *listing = opendir(folder);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        uint64_t step;
        if (is_leftover(entry->d_name) || (parse_name(entry->d_name, &step) && step < than))
            unlinkat(dirfd(listing), entry->d_name, 0);
    }
    if (listing)
        closedir(listing);
}

static remat_status make_path(remat_context *ctx, const char *folder, uint64_t step, char **out)
{
    if (asprintf(out, "%s/" CHECKPOINT_NAME, folder, step) >= 0)
        return REMAT_OK;
    *out = NULL;
    return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
}

static bool is_same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return b && stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* Without links and dots; what is not there yet, in its folder. */
static bool resolve(const char *path, char out[PATH_MAX])
{
    char folder[PATH_MAX], whole[PATH_MAX];
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length >= PATH_MAX)
        return false;
    snprintf(folder, sizeof folder, "%.*s", (int)length, path);
    if (realpath(folder, out))
        return true;
    char *slash = strrchr(folder, '/'), *name = slash ? slash + 1 : folder;
    char last[NAME_MAX + 1];
    if (strlen(name) > NAME_MAX)
        return false;
    memcpy(last, name, strlen(name) + 1);
    snprintf(name, 2, ".");
    if (!realpath(folder, whole) || strlen(whole) + strlen(last) + 2 > PATH_MAX)
        return false;
    snprintf(out, PATH_MAX, "%.*s/%s", (int)(PATH_MAX - NAME_MAX - 2), whole, last);
    return true;
}

remat_status checkpoint_check_output(remat_context *ctx, const char *option, const char *folder,
                                     const char *label, const char *path)
{
    char whole[PATH_MAX], file[PATH_MAX];
    uint64_t step;
    if (!folder || !path || !resolve(folder, whole) || !resolve(path, file))
        return REMAT_OK; /* who opens it says why */
    size_t length = strlen(whole);
    bool within = strncmp(file, whole, length) == 0;
    if (within && !file[length])
        return cli_error(ctx, REMAT_ERROR_USAGE, "%s '%s' is the folder of %s: take another name",
                         label, path, option);
    if (within && file[length] == '/' && parse_name(file + length + 1, &step))
        return cli_error(ctx, REMAT_ERROR_USAGE,
                         "%s '%s' has the name of a checkpoint in the folder of %s: take another "
                         "name",
                         label, path, option);
    return REMAT_OK;
}

static bool get_lasting(const remat_plan *plan, uint32_t i, remat_tensor_info *out)
{
    *out = (remat_tensor_info){.struct_size = sizeof *out};
    return remat_plan_get_tensor(plan, i, out) && lasts(out);
}

bool checkpoint_has_parts(const remat_plan *plan)
{
    return safetensors_has_parts(plan, lasts);
}

remat_status checkpoint_prepare(remat_context *ctx, const char *folder, const char *resumed,
                                const remat_plan *plan, int *lock)
{
    remat_status st = REMAT_OK;
    uint64_t newest[KEPT];
    RUN_TRY(safetensors_check(ctx, folder, plan, lasts));
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return cli_file_error(ctx, folder, "cannot be made: ", errno);
    *lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock >= 0 && !lock_take(*lock))
        RUN_FAIL(ctx, REMAT_ERROR_USAGE, "--checkpoint %s: another process writes to this folder",
                 folder);
    RUN_TRY(find_newest(ctx, folder, newest));
    if (newest[0] && !is_same_folder(folder, resumed))
        RUN_FAIL(ctx, REMAT_ERROR_USAGE,
                 "--checkpoint %s: it has checkpoints of another run, up to step %" PRIu64
                 ": go on from there with --resume %s, or take another folder",
                 folder, newest[0], folder);
    if (access(folder, W_OK) != 0)
        return cli_file_error(ctx, folder, "cannot write: ", errno);
    remove_older(folder, newest[KEPT - 1]); /* of a run that was killed before it could */
fail:
    return st;
}

/* --- writing --- */

static json_t *make_metadata(const struct checkpoint_state *state)
{
    json_t *out =
        json_pack("{s:s,s:s}", "format", FORMAT, SCHEDULE, schedule_name(state->schedule.kind));
    for (size_t i = 0; out && i < NUMBERS; i++)
        if (json_object_set_new(out, numbers[i].key, print_number(state, &numbers[i])) != 0) {
            json_decref(out);
            out = NULL;
        }
    return out;
}

remat_status checkpoint_write(remat_context *ctx, const char *folder, const remat_plan *plan,
                              remat_session *session, const struct peers *peers,
                              const struct checkpoint_state *state)
{
    remat_status st = REMAT_OK;
    struct remat_outputs *outputs = NULL;
    char *path = NULL;
    uint64_t newest[KEPT];
    json_t *metadata = make_metadata(state);
    if (!metadata)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    RUN_TRY(make_path(ctx, folder, state->step, &path));
    RUN_TRY(remat_outputs_create(ctx, &outputs));
    RUN_TRY(remat_outputs_claim(outputs, "--checkpoint", path));
    RUN_TRY(safetensors_save(ctx, outputs, path, plan, lasts, NULL, metadata, session, peers));
    RUN_TRY(remat_outputs_commit(outputs));
    RUN_TRY(find_newest(ctx, folder, newest));
    remove_older(folder, newest[KEPT - 1]);
fail:
    json_decref(metadata);
    remat_outputs_destroy(&outputs);
    free(path);
    return st;
}

remat_status checkpoint_join(remat_context *ctx, const remat_plan *plan, remat_session *session,
                             const struct peers *peers)
{
    return safetensors_join(ctx, plan, lasts, session, peers);
}

/* --- reading --- */

static remat_status read_metadata(remat_context *ctx, struct checkpoint *c)
{
    const json_t *metadata = json_object_get(c->file.header, "__metadata__");
    const char *format = json_string_value(json_object_get(metadata, "format"));
    if (!format || strcmp(format, FORMAT) != 0)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: no checkpoint: its \"format\" is \"%.40s\", expected \"" FORMAT "\"",
                         c->path, format ? format : "");
    for (size_t i = 0; i < NUMBERS; i++) {
        const json_t *text = json_object_get(metadata, numbers[i].key);
        if (!text && numbers[i].may_be_missing)
            continue;
        if (!parse_number(json_string_value(text), &numbers[i], &c->state))
            return cli_error(ctx, REMAT_ERROR_INVALID, "%s: \"%s\" must be a number from %g to %g",
                             c->path, numbers[i].key, numbers[i].least, numbers[i].most);
    }
    const char *schedule = json_string_value(json_object_get(metadata, SCHEDULE));
    if (!schedule || !schedule_find(schedule, &c->state.schedule.kind))
        return cli_error(ctx, REMAT_ERROR_INVALID, "%s: \"" SCHEDULE "\" is \"%.40s\", no schedule",
                         c->path, schedule ? schedule : "");
    return REMAT_OK;
}

static const struct safetensors_tensor *find(const struct checkpoint *c, const char *name)
{
    for (uint32_t i = 0; i < c->file.count; i++)
        if (strcmp(c->file.tensors[i].name, name) == 0)
            return &c->file.tensors[i];
    return NULL;
}

static remat_status check_tensor(remat_context *ctx, const struct checkpoint *c,
                                 const remat_tensor_info *wanted)
{
    const struct safetensors_tensor *found = find(c, wanted->name);
    const char *dtype = safetensors_dtype(wanted->element);
    remat_tensor_info whole = safetensors_whole(wanted);
    if (!found)
        return cli_error(ctx, REMAT_ERROR_INVALID, "%s: tensor \"%s\" of the plan is missing",
                         c->path, wanted->name);
    if (strcmp(found->dtype, dtype) == 0 && found->rank == whole.rank &&
        memcmp(found->shape, whole.shape, whole.rank * sizeof *whole.shape) == 0)
        return REMAT_OK;
    return cli_error(ctx, REMAT_ERROR_INVALID, "%s: tensor \"%s\" is %s %s, in the plan %s %s",
                     c->path, wanted->name, found->dtype,
                     shape_text(found->shape, found->rank).text, dtype,
                     shape_text(whole.shape, whole.rank).text);
}

static remat_status check_tensors(remat_context *ctx, const struct checkpoint *c,
                                  const remat_plan *plan)
{
    remat_status st = REMAT_OK;
    remat_tensor_info tensor;
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++)
        if (get_lasting(plan, i, &tensor))
            RUN_TRY(check_tensor(ctx, c, &tensor));
    for (uint32_t i = 0; i < c->file.count; i++) {
        uint32_t at = remat_plan_find_tensor(plan, c->file.tensors[i].name);
        if (!get_lasting(plan, at, &tensor))
            RUN_FAIL(ctx, REMAT_ERROR_INVALID, "%s: the plan has no parameter or state \"%s\"",
                     c->path, c->file.tensors[i].name);
    }
fail:
    return st;
}

static bool is_gone(const char *path)
{
    struct stat info;
    return lstat(path, &info) != 0 && errno == ENOENT;
}

/* Of a run that goes on meanwhile, which removes the file once it has two newer ones. */
static remat_status open_newest(remat_context *ctx, const char *folder, struct checkpoint *out,
                                uint64_t newest[KEPT])
{
    remat_status st;
    do {
        free(out->path);
        out->path = NULL;
        RUN_TRY(find_newest(ctx, folder, newest));
        if (!newest[0])
            RUN_FAIL(ctx, REMAT_ERROR_USAGE, "--resume %s: it has no checkpoint", folder);
        RUN_TRY(make_path(ctx, folder, newest[0], &out->path));
        st = safetensors_read_file(ctx, out->path, &out->file);
    } while (st == REMAT_ERROR_IO && is_gone(out->path));
    RUN_TRY(st);
    RUN_TRY(read_metadata(ctx, out));
    if (out->state.step != newest[0])
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "%s: it is of step %" PRIu64, out->path,
                 out->state.step);
fail:
    return st;
}

remat_status checkpoint_open(remat_context *ctx, const char *folder, const remat_plan *plan,
                             struct checkpoint *out)
{
    uint64_t newest[KEPT];
    *out = (struct checkpoint){0};
    remat_status st = open_newest(ctx, folder, out, newest);
    if ((st == REMAT_ERROR_INVALID || st == REMAT_ERROR_IO) && newest[1])
        return cli_error(ctx, st, "%s; without this file --resume begins after step %" PRIu64,
                         remat_context_message(ctx), newest[1]);
    return st ? st : check_tensors(ctx, out, plan);
}

remat_status checkpoint_restore(remat_context *ctx, const struct checkpoint *c,
                                const remat_plan *plan, uint32_t rank, remat_session *session)
{
    remat_status st = REMAT_OK;
    remat_tensor_info tensor;
    void *buffer = malloc(RESTORE_BYTES);
    if (!buffer)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "%s: out of memory", c->path);
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++)
        if (get_lasting(plan, i, &tensor))
            RUN_TRY(restore_tensor(ctx, &c->file, find(c, tensor.name), &tensor, rank, session,
                                   buffer));
fail:
    free(buffer);
    return st;
}

void checkpoint_release(struct checkpoint *checkpoint)
{
    safetensors_release(&checkpoint->file);
    free(checkpoint->path);
    *checkpoint = (struct checkpoint){0};
}

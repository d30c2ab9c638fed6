/* SPDX-License-Identifier: Apache-2.0 */
/* --resume of a folder that another process saves to: where a checkpoint is removed before it is
 * opened, the newest one of then is. What is there and cannot be opened is an error. */
#include "check.h"
#include "checkpoint.h"
#include "tool.h"

#include <unistd.h>

static void save(const char *name)
{
    FILE *file = fopen(name, "w");
    MUST(file, "%s", name);
    fputs("a file", file);
    fclose(file);
}

static int removed;

remat_status __real_safetensors_read_file(remat_context *ctx, const char *path,
                                          struct safetensors_file *out);
remat_status __wrap_safetensors_read_file(remat_context *ctx, const char *path,
                                          struct safetensors_file *out);
remat_status __wrap_safetensors_read_file(remat_context *ctx, const char *path,
                                          struct safetensors_file *out)
{
    static const char *const newer[] = {"step-0000000002.safetensors",
                                        "step-0000000010.safetensors"};
    if (removed < 2) {
        save(newer[removed++]);
        unlink(path);
    }
    return __real_safetensors_read_file(ctx, path, out);
}

static void check_open(remat_status expected, const char *message)
{
    struct checkpoint checkpoint;
    remat_context *ctx = remat_context_create(NULL, NULL);
    CHECK_STATUS(ctx, checkpoint_open(ctx, ".", NULL, &checkpoint), expected, message);
    checkpoint_release(&checkpoint);
    remat_context_destroy(&ctx);
}

int main(void)
{
    char folder[] = "/tmp/remat-checkpoint-XXXXXX";
    MUST(mkdtemp(folder) && chdir(folder) == 0);
    check_open(REMAT_ERROR_USAGE, "--resume .: it has no checkpoint");
    save("step-0000000001.safetensors");
    check_open(REMAT_ERROR_INVALID, "./step-0000000010.safetensors: not a safetensors file");
    CHECK(removed == 2, "%d", removed);
    MUST(symlink("nowhere", "step-0000000011.safetensors") == 0);
    check_open(REMAT_ERROR_IO, "./step-0000000011.safetensors: No such file");
    unlink("step-0000000010.safetensors");
    unlink("step-0000000011.safetensors");
    MUST(chdir("/") == 0 && rmdir(folder) == 0);
    return check_exit();
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "emit_cuda.h"

#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

remat_status emit_cuda_check(remat_context *ctx, const char *folder)
{
    const char *found = NULL;
    errno = 0;
    DIR *opened = opendir(folder);
    if (!opened && errno != ENOENT)
        return cli_file_error(ctx, folder, "", errno);
    for (struct dirent *entry; opened && !found && (entry = readdir(opened));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            found = entry->d_name;
    remat_status st =
        found ? cli_error(ctx, REMAT_ERROR_USAGE,
                          "--emit-cuda %s: the folder is not empty, it has \"%s\": empty it, or "
                          "name another",
                          folder, found)
              : REMAT_OK;
    if (opened)
        closedir(opened);
    return st;
}

remat_status emit_cuda(remat_context *ctx, struct remat_outputs *outputs, remat_compiled *compiled,
                       const char *folder)
{
    const remat_code_file *files;
    uint32_t count;
    remat_status st = remat_compiled_code(ctx, compiled, &files, &count);
    if (st == REMAT_OK)
        st = remat_outputs_write_into(outputs, folder, NULL, NULL, 0);
    for (uint32_t k = 0; st == REMAT_OK && k < count; k++)
        st =
            remat_outputs_write_into(outputs, folder, files[k].name, files[k].data, files[k].bytes);
    return st;
}

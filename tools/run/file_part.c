/* SPDX-License-Identifier: Apache-2.0 */
#include "file_part.h"

#include <assert.h>
#include <errno.h>
#include <sys/file.h>
#include <unistd.h>

remat_status file_read_part(remat_context *ctx, FILE *file, const char *path, uint64_t total,
                            uint64_t begin, void *out, uint64_t bytes)
{
    assert(begin + bytes <= total);
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = pread(fileno(file), (char *)out + done, bytes - done, (off_t)(begin + done));
        if (got < 0 && errno != EINTR)
            return cli_file_error(ctx, path, "", errno);
        if (got == 0)
            return cli_error(ctx, REMAT_ERROR_IO, "%s: it ends before byte %llu, and had %llu",
                             path, (unsigned long long)(begin + done), (unsigned long long)total);
        done += got < 0 ? 0 : (uint64_t)got;
    }
    return REMAT_OK;
}

bool lock_take(int descriptor)
{
    return flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

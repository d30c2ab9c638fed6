/* SPDX-License-Identifier: Apache-2.0 */
#include "cubin_cache.h"

#include "file.h"
#include "files.h"

#include <assert.h>
#include <errno.h>
#include <sys/stat.h>

struct header { /* then the warnings, terminated, then the cubin */
    char magic[8];
    uint64_t hash; /* of everything after it */
    uint64_t warnings_bytes, cubin_bytes;
    uint32_t registers, spill_bytes, shared_bytes, reserved;
};
static const char magic[8] = "RMTCUB2";

/* The file of what this NVRTC makes of the text with the options: `folder`/HASH.cubin, the 128
 * bits being of text, options and version. */
static const char *cache_path(struct remat_arena *arena, const struct remat_nvrtc *nvrtc,
                              const char *folder, const char *text,
                              const struct remat_nvrtc_options *options)
{
    int major, minor;
    remat_nvrtc_version(nvrtc, &major, &minor);
    unsigned long long seed = (unsigned long long)major << 32 | (uint32_t)minor;
    unsigned long long hashes[] = {seed, ~seed};
    for (uint32_t h = 0; h < 2; h++) {
        for (uint32_t o = 0; o < options->count; o++)
            hashes[h] = remat_hash_string(options->items[o], hashes[h]);
        hashes[h] = remat_hash_string(text, hashes[h]);
    }
    return remat_arena_format(arena, "%s/%016llx%016llx.cubin", folder, hashes[0], hashes[1]);
}

static uint64_t hash_entry(const char *data, size_t bytes)
{
    const size_t begin = offsetof(struct header, warnings_bytes);
    return remat_hash(data + begin, bytes - begin, 0);
}

/* False when it is not there or damaged, which its checksum shows. The data of `out` lies in
 * `arena`; `kernel` and `arch` are the caller's. */
static bool read_cached(struct remat_arena *arena, const char *path, struct remat_cubin *out)
{
    char *data;
    size_t bytes;
    if (remat_file_read(arena->ctx, path, arena, &data, &bytes) != REMAT_OK ||
        bytes < sizeof(struct header))
        return false;
    const struct header *header = (const void *)data;
    if (memcmp(header->magic, magic, sizeof magic) != 0 ||
        header->hash != hash_entry(data, bytes) || header->cubin_bytes == 0 ||
        header->warnings_bytes == 0 || header->warnings_bytes > bytes ||
        header->cubin_bytes > bytes ||
        sizeof *header + header->warnings_bytes + header->cubin_bytes != bytes)
        return false;
    out->warnings = data + sizeof *header;
    out->data = out->warnings + header->warnings_bytes;
    out->bytes = header->cubin_bytes;
    out->registers = header->registers;
    out->spill_bytes = header->spill_bytes;
    out->shared_bytes = header->shared_bytes;
    return out->warnings[header->warnings_bytes - 1] == 0;
}

/* By way of a temporary file, so that who reads sees a whole one. */
static remat_status write_cached(struct remat_arena *arena, const char *path,
                                 const struct remat_cubin *cubin)
{
    struct header header = {.warnings_bytes = strlen(cubin->warnings) + 1,
                            .cubin_bytes = cubin->bytes,
                            .registers = cubin->registers,
                            .spill_bytes = cubin->spill_bytes,
                            .shared_bytes = cubin->shared_bytes};
    size_t bytes = sizeof header + header.warnings_bytes + header.cubin_bytes;
    char *data = remat_arena_array(arena, bytes, 1);
    if (!data)
        return REMAT_ERROR_MEMORY;
    memcpy(header.magic, magic, sizeof magic);
    memcpy(data, &header, sizeof header);
    memcpy(data + sizeof header, cubin->warnings, header.warnings_bytes);
    memcpy(data + sizeof header + header.warnings_bytes, cubin->data, cubin->bytes);
    header.hash = hash_entry(data, bytes);
    memcpy(data, &header, sizeof header);
    return remat_file_write(arena->ctx, path, data, bytes);
}

remat_status remat_cubin_cache_open(remat_context *ctx, const char *folder)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    remat_arena_init(&scratch, ctx);
    char *copy = remat_arena_string(&scratch, folder, strlen(folder));
    if (!copy)
        REMAT_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    for (char *slash = copy; slash;) {
        slash = *slash ? strchr(slash + 1, '/') : NULL;
        if (slash)
            *slash = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            REMAT_TRY(remat_file_error(ctx, folder, "", errno));
        if (slash)
            *slash = '/';
    }
fail:
    remat_arena_release(&scratch);
    return st;
}

remat_status remat_cubin_make(const struct remat_nvrtc *nvrtc, struct remat_arena *arena,
                              const char *folder, const char *key, const char *text,
                              const char *arch, struct remat_cubin *out,
                              struct remat_cubin_source *source)
{
    assert(key && text && arch);
    struct remat_nvrtc_options options;
    const char *path = NULL;
    *source = (struct remat_cubin_source){0};
    if (folder) {
        remat_nvrtc_options(nvrtc, arch, &options);
        path = cache_path(arena, nvrtc, folder, text, &options);
        if (!path)
            return REMAT_ERROR_MEMORY;
        source->cached = read_cached(arena, path, out);
        if (source->cached)
            return REMAT_OK;
    }
    remat_status st = remat_nvrtc_compile(nvrtc, arena, key, text, arch, out);
    if (st == REMAT_OK && path && write_cached(arena, path, out) != REMAT_OK)
        source->unwritten = remat_arena_format(arena, "%s", remat_context_message(arena->ctx));
    return st;
}

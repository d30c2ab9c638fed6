/* SPDX-License-Identifier: Apache-2.0 */
#include "cubin_cache.h"

#include "files.h"
#include "unwind.h"

#include <stddef.h>

struct header { /* then the warnings, terminated, then the cubin */
    char magic[8];
    uint64_t hash; /* of everything behind it */
    uint64_t warnings_bytes, cubin_bytes;
    uint32_t registers, spill_bytes, shared_bytes, reserved;
};
static const char magic[8] = "RMTCUB2";

static uint64_t hash_content(const char *text, const struct remat_nvrtc_options *options,
                             uint64_t seed)
{
    for (uint32_t o = 0; o < options->count; o++)
        seed = remat_hash_string(options->items[o], seed);
    return remat_hash_string(text, seed);
}

const char *remat_cubin_cache_path(struct remat_arena *arena, const struct remat_nvrtc *nvrtc,
                                   const char *folder, const char *text,
                                   const struct remat_nvrtc_options *options)
{
    int major, minor;
    remat_nvrtc_version(nvrtc, &major, &minor);
    uint64_t seed = (uint64_t)major << 32 | (uint32_t)minor;
    return REMAT_FORMAT(arena, "%s/%016llx%016llx.cubin", folder,
                        (unsigned long long)hash_content(text, options, seed),
                        (unsigned long long)hash_content(text, options, ~seed));
}

static uint64_t hash_entry(const char *data, size_t bytes)
{
    const size_t begin = offsetof(struct header, warnings_bytes);
    return remat_hash(data + begin, bytes - begin, 0);
}

bool remat_cubin_cache_read(struct remat_arena *arena, const char *path, struct remat_cubin *out)
{
    struct header header;
    char *data;
    size_t bytes;
    if (remat_file_read(arena->ctx, path, arena, &data, &bytes) != REMAT_OK ||
        bytes < sizeof header)
        return false;
    memcpy(&header, data, sizeof header);
    if (memcmp(header.magic, magic, sizeof magic) != 0 || header.hash != hash_entry(data, bytes) ||
        header.cubin_bytes == 0 || header.warnings_bytes == 0 || header.warnings_bytes > bytes ||
        header.cubin_bytes > bytes ||
        sizeof header + header.warnings_bytes + header.cubin_bytes != bytes)
        return false;
    out->warnings = data + sizeof header;
    out->data = data + sizeof header + header.warnings_bytes;
    out->bytes = header.cubin_bytes;
    out->registers = header.registers;
    out->spill_bytes = header.spill_bytes;
    out->shared_bytes = header.shared_bytes;
    return out->warnings[header.warnings_bytes - 1] == 0;
}

remat_status remat_cubin_cache_write(struct remat_arena *arena, const char *path,
                                     const struct remat_cubin *cubin)
{
    struct header header = {.warnings_bytes = strlen(cubin->warnings) + 1,
                            .cubin_bytes = cubin->bytes,
                            .registers = cubin->registers,
                            .spill_bytes = cubin->spill_bytes,
                            .shared_bytes = cubin->shared_bytes};
    size_t bytes = sizeof header + header.warnings_bytes + header.cubin_bytes;
    char *data;
    REMAT_NEW(arena, data, bytes);
    memcpy(header.magic, magic, sizeof magic);
    memcpy(data, &header, sizeof header);
    memcpy(data + sizeof header, cubin->warnings, header.warnings_bytes);
    memcpy(data + sizeof header + header.warnings_bytes, cubin->data, cubin->bytes);
    header.hash = hash_entry(data, bytes);
    memcpy(data, &header, sizeof header);
    return remat_file_write(arena->ctx, path, data, bytes);
}

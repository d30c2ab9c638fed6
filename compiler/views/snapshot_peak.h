/* SPDX-License-Identifier: Apache-2.0 */
/* The peak of a snapshot of PyTorch's allocator (torch.cuda.memory._dump_snapshot), for --with. */
#ifndef REMAT_DUMP_SNAPSHOT_PEAK_H
#define REMAT_DUMP_SNAPSHOT_PEAK_H

#include "buffers.h"

/* Class of what was allocated before the recording, or without a stack. */
#define SNAPSHOT_NOT_RECORDED DUMP_CLASS_COUNT

struct snapshot_peak {
    uint32_t device; /* that with the highest peak */
    size_t event_count;
    uint64_t peak_bytes, reserved_bytes;       /* each at its own highest */
    uint64_t bytes[SNAPSHOT_NOT_RECORDED + 1]; /* at the peak, by class */
};
/* Finds it in the file's bytes; `name` begins messages. REMAT_ERROR_INVALID. */
remat_status snapshot_peak_find(remat_context *ctx, struct remat_arena *arena, const char *name,
                                const void *data, size_t bytes, struct snapshot_peak *out);

/* The plan and the snapshot in the file side by side, as lines and as the key "snapshot". */
remat_status dump_beside_text(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_program *program, const char *path,
                              struct remat_text *out);
remat_status dump_beside_json(remat_context *ctx, struct remat_arena *arena, const char *path,
                              struct dump_json *out);

#endif

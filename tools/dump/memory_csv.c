/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_csv.h"

#include <inttypes.h>

void dump_memory_csv(const struct remat_program *program, struct remat_text *out)
{
    remat_text_append(out, "id,lower,upper,size,offset\n");
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const struct remat_buffer *buffer = &program->buffers[b];
        remat_text_append(out, "%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 "\n", b,
                          buffer->persistent ? 0 : buffer->begin,
                          buffer->persistent ? program->command_count : buffer->end, buffer->bytes,
                          buffer->offset_bytes);
    }
}

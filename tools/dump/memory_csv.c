/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_csv.h"

#include "classes.h"
#include "labels.h"

#include <inttypes.h>

/* A cell, quoted where it would not be one. */
static void append_cell(struct remat_text *out, const char *text)
{
    bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    remat_text_append(out, "%s", quoted ? ",\"" : ",");
    for (; *text; text++)
        remat_text_append(out, "%s%c", *text == '"' ? "\"" : "", *text);
    remat_text_append(out, "%s", quoted ? "\"" : "");
}

remat_status dump_memory_csv(struct remat_arena *arena, const struct remat_program *program,
                             struct remat_text *out)
{
    const struct dump_label *labels = dump_labels(arena, program);
    const uint8_t *classes = dump_classify(arena, program);
    if (!labels || !classes)
        return REMAT_ERROR_MEMORY;
    remat_text_append(out, "id,lower,upper,size,offset,name,layer,op,class\n");
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const struct remat_buffer *buffer = &program->buffers[b];
        remat_text_append(out, "%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64, b,
                          buffer->persistent ? 0 : buffer->begin,
                          buffer->persistent ? program->command_count : buffer->end, buffer->bytes,
                          buffer->offset_bytes);
        append_cell(out, labels[b].name);
        if (labels[b].layer < 0)
            append_cell(out, "");
        else
            remat_text_append(out, ",%" PRId32, labels[b].layer);
        append_cell(out, labels[b].op);
        append_cell(out, dump_class_names[classes[b]]);
        remat_text_append(out, "\n");
    }
    return REMAT_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Opcodes are those that PyTorch's viewer in the browser reads. It unpacks what it adds to a list
 * at once into arguments of a call, of which there can be too many, so items are added one by one.
 */
#include "pickle_writer.h"

#include "show.h"

static void append(struct remat_text *out, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (out->count == out->capacity) {
            char *grown = remat_arena_grow(out->arena, out->items, out->count, &out->capacity, 1);
            out->failed |= !grown;
            if (!grown)
                return;
            out->items = grown;
        }
        out->items[out->count++] = ((const char *)bytes)[i];
    }
}

static void append_number(struct remat_text *out, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++, value >>= 8)
        append(out, &(unsigned char){value & 0xff}, 1);
}

void pickle_begin(struct remat_text *out)
{
    append(out, "\x80\x02", 2);
}

void pickle_end(struct remat_text *out)
{
    append(out, ".", 1);
}

void pickle_integer(struct remat_text *out, uint64_t value)
{
    if (value <= INT32_MAX) {
        append(out, "J", 1);
        append_number(out, value, 4);
        return;
    }
    uint32_t bytes = value <= INT64_MAX ? 8 : 9; /* signed */
    append(out, "\x8a", 1);
    append_number(out, bytes, 1);
    append_number(out, value, 8);
    append_number(out, 0, bytes - 8);
}

void pickle_boolean(struct remat_text *out, bool value)
{
    append(out, value ? "\x88" : "\x89", 1);
}

void pickle_text(struct remat_text *out, const char *text)
{
    struct remat_text shown = {.arena = out->arena};
    remat_text_show(&shown, text);
    out->failed |= shown.failed;
    append(out, "X", 1);
    append_number(out, shown.count, 4);
    append(out, shown.items, shown.count);
}

void pickle_dict(struct remat_text *out)
{
    append(out, "}(", 2);
}

void pickle_dict_end(struct remat_text *out)
{
    append(out, "u", 1);
}

void pickle_list(struct remat_text *out)
{
    append(out, "]", 1);
}

void pickle_add(struct remat_text *out)
{
    append(out, "a", 1);
}

void pickle_pair(struct remat_text *out)
{
    append(out, "\x86", 1);
}

void pickle_keep(struct remat_text *out, uint32_t number)
{
    append(out, "r", 1);
    append_number(out, number, 4);
}

void pickle_kept(struct remat_text *out, uint32_t number)
{
    append(out, "j", 1);
    append_number(out, number, 4);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A stack of values, of which a mark begins the last few, and a memo of values by number. Text and
 * lists are of the protocols 2 to 5. */
#include "pickle_reader.h"

struct pickle_reader {
    remat_context *ctx;
    const char *name;
    const unsigned char *data;
    size_t bytes, at, opcode; /* the next byte; where the opcode is */
    struct remat_arena *arena;
    struct REMAT_LIST(struct pickle_value *) stack, memo;
    struct REMAT_LIST(size_t) marks; /* heights of the stack */
};

static remat_status refuse(const struct pickle_reader *r, const char *what)
{
    return remat_error(r->ctx, REMAT_ERROR_INVALID, "%s: byte %zu: %s", r->name, r->opcode, what);
}

/* A little-endian number. */
static remat_status take(struct pickle_reader *r, uint32_t bytes, uint64_t *out)
{
    *out = 0;
    if (r->bytes - r->at < bytes)
        return refuse(r, "the file ends in the middle");
    for (uint32_t i = 0; i < bytes; i++)
        *out |= (uint64_t)r->data[r->at++] << (8 * i);
    return REMAT_OK;
}

static remat_status push(struct pickle_reader *r, struct pickle_value value)
{
    remat_status st = REMAT_OK;
    struct pickle_value *added;
    REMAT_TRY_NEW(r->arena, added, 1);
    *added = value;
    REMAT_TRY_PUSH(r->arena, &r->stack, added);
fail:
    return st;
}

static remat_status push_number(struct pickle_reader *r, uint8_t kind, int64_t number)
{
    return push(r, (struct pickle_value){.kind = kind, .number = number});
}

/* The stack may not go below the last mark. */
static size_t base_of(const struct pickle_reader *r)
{
    return r->marks.count ? r->marks.items[r->marks.count - 1] : 0;
}

static remat_status need(const struct pickle_reader *r, size_t values)
{
    return r->stack.count - base_of(r) < values ? refuse(r, "a value is missing") : REMAT_OK;
}

/* --- opcodes --- */

static remat_status read_integer(struct pickle_reader *r, uint32_t bytes, bool is_signed)
{
    remat_status st = REMAT_OK;
    uint64_t number;
    REMAT_TRY(take(r, bytes, &number));
    if (is_signed && bytes && bytes < 8 && number >> (8 * bytes - 1))
        number |= UINT64_MAX << (8 * bytes);
    st = push_number(r, PICKLE_INTEGER, (int64_t)number);
fail:
    return st;
}

static remat_status read_long(struct pickle_reader *r)
{
    remat_status st = REMAT_OK;
    uint64_t bytes;
    REMAT_TRY(take(r, 1, &bytes));
    if (bytes > 8)
        return refuse(r, "an integer of more than 64 bits");
    st = read_integer(r, (uint32_t)bytes, true);
fail:
    return st;
}

static remat_status read_text(struct pickle_reader *r, uint32_t bytes)
{
    remat_status st = REMAT_OK;
    uint64_t length;
    REMAT_TRY(take(r, bytes, &length));
    if (length > r->bytes - r->at)
        return refuse(r, "a text that is longer than the file");
    const char *text = remat_arena_string(r->arena, (const char *)r->data + r->at, (size_t)length);
    if (!text)
        return REMAT_ERROR_MEMORY;
    r->at += (size_t)length;
    st =
        push(r, (struct pickle_value){.kind = PICKLE_TEXT, .text = text, .length = (size_t)length});
fail:
    return st;
}

/* The values from `begin` on go into `into`. */
static remat_status move(struct pickle_reader *r, struct pickle_value *into, size_t begin)
{
    remat_status st = REMAT_OK;
    for (size_t i = begin; i < r->stack.count; i++)
        REMAT_TRY_PUSH(r->arena, into, r->stack.items[i]);
    r->stack.count = begin;
fail:
    return st;
}

/* Adds `values`, or those from the mark on if it is 0, to the list or dict under them. */
static remat_status add(struct pickle_reader *r, uint8_t kind, size_t values)
{
    remat_status st = REMAT_OK;
    size_t begin;
    if (values == 0) {
        if (r->marks.count == 0)
            return refuse(r, "a mark is missing");
        begin = r->marks.items[--r->marks.count];
        values = r->stack.count - begin;
    }
    REMAT_TRY(need(r, values + 1));
    begin = r->stack.count - values;
    struct pickle_value *into = r->stack.items[begin - 1];
    if (into->kind != kind || (kind == PICKLE_DICT && values % 2))
        return refuse(r, kind == PICKLE_LIST ? "there is no list to add to"
                                             : "there is no dict to add to, or a key has no value");
    st = move(r, into, begin);
fail:
    return st;
}

static remat_status make_tuple(struct pickle_reader *r, size_t begin)
{
    remat_status st = REMAT_OK;
    struct pickle_value tuple = {.kind = PICKLE_LIST};
    REMAT_TRY(move(r, &tuple, begin));
    st = push(r, tuple);
fail:
    return st;
}

static remat_status make_tuple_of(struct pickle_reader *r, size_t values)
{
    remat_status st = need(r, values);
    return st ? st : make_tuple(r, r->stack.count - values);
}

static remat_status make_marked_tuple(struct pickle_reader *r)
{
    if (r->marks.count == 0)
        return refuse(r, "a mark is missing");
    return make_tuple(r, r->marks.items[--r->marks.count]);
}

static remat_status keep(struct pickle_reader *r, uint64_t number)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(need(r, 1));
    if (number >= r->bytes)
        return refuse(r, "a memo's number is above what the file can have");
    while (r->memo.count <= number)
        REMAT_TRY_PUSH(r->arena, &r->memo, NULL);
    r->memo.items[number] = r->stack.items[r->stack.count - 1];
fail:
    return st;
}

static remat_status read_keep(struct pickle_reader *r, uint32_t bytes)
{
    uint64_t number;
    remat_status st = take(r, bytes, &number);
    return st ? st : keep(r, number);
}

static remat_status read_kept(struct pickle_reader *r, uint32_t bytes)
{
    remat_status st = REMAT_OK;
    uint64_t number;
    REMAT_TRY(take(r, bytes, &number));
    if (number >= r->memo.count || !r->memo.items[number])
        return refuse(r, "the memo has nothing of that number");
    REMAT_TRY_PUSH(r->arena, &r->stack, r->memo.items[number]);
fail:
    return st;
}

static remat_status skip(struct pickle_reader *r, size_t bytes)
{
    if (r->bytes - r->at < bytes)
        return refuse(r, "the file ends in the middle");
    r->at += bytes;
    return REMAT_OK;
}

static remat_status read_protocol(struct pickle_reader *r)
{
    uint64_t version;
    remat_status st = take(r, 1, &version);
    if (!st && (version < 2 || version > 5))
        st = refuse(r, "a pickle's protocol other than 2 to 5");
    return st;
}

static remat_status read_real(struct pickle_reader *r)
{
    remat_status st = skip(r, 8);
    return st ? st : push_number(r, PICKLE_REAL, 0);
}

static remat_status mark(struct pickle_reader *r)
{
    remat_status st = REMAT_OK;
    REMAT_TRY_PUSH(r->arena, &r->marks, r->stack.count);
fail:
    return st;
}

static remat_status refuse_opcode(const struct pickle_reader *r, unsigned char opcode)
{
    return remat_error(r->ctx, REMAT_ERROR_INVALID,
                       "%s: byte %zu: opcode 0x%02x, which plain data does not need; nothing of a "
                       "pickle is executed",
                       r->name, r->opcode, opcode);
}

static remat_status step(struct pickle_reader *r, unsigned char opcode)
{
    switch (opcode) {
    case 0x80:
        return read_protocol(r);
    case 0x95: /* FRAME */
        return skip(r, 8);
    case '(':
        return mark(r);
    case 'N':
        return push_number(r, PICKLE_NONE, 0);
    case 0x88:
    case 0x89:
        return push_number(r, PICKLE_BOOLEAN, opcode == 0x88);
    case 'J':
        return read_integer(r, 4, true);
    case 'K':
        return read_integer(r, 1, false);
    case 'M':
        return read_integer(r, 2, false);
    case 0x8a:
        return read_long(r);
    case 'G':
        return read_real(r);
    case 'X':
        return read_text(r, 4);
    case 0x8c:
        return read_text(r, 1);
    case 0x8d:
        return read_text(r, 8);
    case ']':
    case ')':
        return push_number(r, PICKLE_LIST, 0);
    case '}':
        return push_number(r, PICKLE_DICT, 0);
    case 'a':
        return add(r, PICKLE_LIST, 1);
    case 'e':
        return add(r, PICKLE_LIST, 0);
    case 's':
        return add(r, PICKLE_DICT, 2);
    case 'u':
        return add(r, PICKLE_DICT, 0);
    case 't':
        return make_marked_tuple(r);
    case 0x85:
    case 0x86:
    case 0x87:
        return make_tuple_of(r, opcode - 0x84u);
    case 0x94:
        return keep(r, r->memo.count);
    case 'q':
        return read_keep(r, 1);
    case 'r':
        return read_keep(r, 4);
    case 'h':
        return read_kept(r, 1);
    case 'j':
        return read_kept(r, 4);
    default:
        return refuse_opcode(r, opcode);
    }
}

remat_status pickle_read(remat_context *ctx, const char *name, const void *data, size_t bytes,
                         struct remat_arena *arena, struct pickle_value **out)
{
    remat_status st = REMAT_OK;
    struct pickle_reader r = {
        .ctx = ctx, .name = name, .data = data, .bytes = bytes, .arena = arena};
    uint64_t opcode;
    for (;;) {
        r.opcode = r.at;
        REMAT_TRY(take(&r, 1, &opcode));
        if (r.opcode == 0 && opcode != 0x80)
            return refuse(&r, "no pickle of protocol 2 or later begins here");
        if (opcode == '.')
            break;
        REMAT_TRY(step(&r, (unsigned char)opcode));
    }
    if (r.stack.count != 1 || r.marks.count)
        return refuse(&r, "the pickle ends with another number of values than one");
    *out = r.stack.items[0];
fail:
    return st;
}

struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key)
{
    size_t length = strlen(key);
    if (!dict || dict->kind != PICKLE_DICT)
        return NULL;
    for (size_t i = dict->count; i >= 2; i -= 2) {
        const struct pickle_value *found = dict->items[i - 2];
        if (found->kind == PICKLE_TEXT && found->length == length &&
            memcmp(found->text, key, length) == 0)
            return dict->items[i - 1];
    }
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "report_tables.h"

#include <stdbool.h>
#include <stdlib.h>

struct packer {
    json_t
        *places; /* by text: first how often it occurs, then its place, the most frequent first */
    bool failed; /* out of memory at some point */
};

/* Takes `value`. */
static void set(struct packer *pack, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        pack->failed = true;
}

static void push(struct packer *pack, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0)
        pack->failed = true;
}

/* --- texts --- */

static void count_texts(struct packer *pack, const json_t *value)
{
    const char *text = json_string_value(value);
    json_t *count = text ? json_object_get(pack->places, text) : NULL;
    if (count)
        json_integer_set(count, json_integer_value(count) + 1);
    else if (text)
        set(pack, pack->places, text, json_integer(1));
    for (size_t i = 0; i < json_array_size(value); i++)
        count_texts(pack, json_array_get(value, i));
    for (void *at = json_object_iter((json_t *)value); at;
         at = json_object_iter_next((json_t *)value, at))
        count_texts(pack, json_object_iter_value(at));
}

struct counted {
    const char *text;
    json_t *place;
    json_int_t count;
    size_t order;
};

static int by_count(const void *a, const void *b)
{
    const struct counted *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return (x->order > y->order) - (x->order < y->order);
}

static json_t *rank_texts(struct packer *pack)
{
    size_t count = 0;
    json_t *texts = json_array();
    struct counted *all = malloc((json_object_size(pack->places) + 1) * sizeof *all);
    for (void *at = json_object_iter(pack->places); at && all;
         at = json_object_iter_next(pack->places, at)) {
        json_t *place = json_object_iter_value(at);
        all[count] =
            (struct counted){json_object_iter_key(at), place, json_integer_value(place), count};
        count++;
    }
    pack->failed |= !all;
    if (all)
        qsort(all, count, sizeof *all, by_count);
    for (size_t i = 0; i < count; i++) {
        json_integer_set(all[i].place, (json_int_t)i);
        push(pack, texts, json_string(all[i].text));
    }
    free(all);
    return texts;
}

/* --- tables --- */

static bool is_list(const json_t *value)
{
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_object(json_array_get(value, i)))
            return false;
    return json_is_array(value);
}

enum form { TEXTS, OBJECTS, LISTS, VALUES };

/* `cells`: an array, null where a row has none. */
static enum form form_of(const json_t *cells)
{
    bool texts = true, objects = true, lists = true, filled = false, some = false;
    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);
        bool none = json_is_null(cell);
        some |= !none;
        texts &= none || json_is_string(cell);
        objects &= none || json_is_object(cell);
        lists &= none || is_list(cell);
        filled |= json_array_size(cell) > 0;
    }
    if (!some)
        return VALUES;
    return texts ? TEXTS : objects ? OBJECTS : lists && filled ? LISTS : VALUES;
}

/* Takes `list`, whose equal neighbours become one where most have some. */
static void set_runs(struct packer *pack, json_t *column, const char *name, json_t *list)
{
    json_t *heads = json_array(), *runs = json_array();
    for (size_t i = 0, end; i < json_array_size(list); i = end) {
        json_t *head = json_array_get(list, i);
        for (end = i + 1; end < json_array_size(list); end++)
            if (!json_equal(json_array_get(list, end), head))
                break;
        push(pack, heads, json_incref(head));
        push(pack, runs, json_integer((json_int_t)(end - i)));
    }
    bool shorter = json_array_size(heads) * 2 < json_array_size(list);
    set(pack, column, name, json_incref(shorter ? heads : list));
    if (shorter)
        set(pack, column, "runs", json_incref(runs));
    json_decref(heads);
    json_decref(runs);
    json_decref(list);
}

static json_t *pack_table(struct packer *pack, const json_t *rows);

/* What the cells hold, one after the other. */
static json_t *join(struct packer *pack, const json_t *cells, enum form form)
{
    json_t *all = json_array();
    for (size_t i = 0; i < json_array_size(cells); i++) {
        json_t *cell = json_array_get(cells, i);
        if (form == LISTS && json_is_array(cell) && json_array_extend(all, cell) != 0)
            pack->failed = true;
        else if (form == OBJECTS && json_is_object(cell))
            push(pack, all, json_incref(cell));
    }
    return all;
}

static json_t *pack_cell(const struct packer *pack, json_t *cell, enum form form)
{
    if (form == VALUES || json_is_null(cell))
        return json_incref(cell);
    if (form == TEXTS)
        return json_incref(json_object_get(pack->places, json_string_value(cell)));
    return json_integer(form == LISTS ? (json_int_t)json_array_size(cell) : 1);
}

static json_t *pack_column(struct packer *pack, const json_t *cells)
{
    static const char *const names[] = {
        [TEXTS] = "texts", [OBJECTS] = "objects", [LISTS] = "lists", [VALUES] = "values"};
    enum form form = form_of(cells);
    json_t *column = json_object(), *list = json_array();
    for (size_t i = 0; i < json_array_size(cells); i++)
        push(pack, list, pack_cell(pack, json_array_get(cells, i), form));
    set_runs(pack, column, names[form], list);
    if (form == OBJECTS || form == LISTS) {
        json_t *all = join(pack, cells, form);
        set(pack, column, "of", pack_table(pack, all));
        json_decref(all);
    }
    return column;
}

static json_t *pack_table(struct packer *pack, const json_t *rows)
{
    json_t *keys = json_object(), *columns = json_object(), *table = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (json_object_update_missing(keys, json_array_get(rows, i)) != 0)
            pack->failed = true;
    for (void *at = json_object_iter(keys); at; at = json_object_iter_next(keys, at)) {
        const char *key = json_object_iter_key(at);
        json_t *cells = json_array();
        for (size_t i = 0; i < json_array_size(rows); i++) {
            json_t *cell = json_object_get(json_array_get(rows, i), key);
            push(pack, cells, cell ? json_incref(cell) : json_null());
        }
        set(pack, columns, key, pack_column(pack, cells));
        json_decref(cells);
    }
    json_decref(keys);
    set(pack, table, "rows", json_integer((json_int_t)json_array_size(rows)));
    set(pack, table, "columns", columns);
    return table;
}

static json_t *pack_value(struct packer *pack, const json_t *value)
{
    if (is_list(value))
        return pack_table(pack, value);
    if (!json_is_object(value))
        return json_deep_copy(value);
    json_t *object = json_object();
    for (void *at = json_object_iter((json_t *)value); at;
         at = json_object_iter_next((json_t *)value, at))
        set(pack, object, json_object_iter_key(at), pack_value(pack, json_object_iter_value(at)));
    return object;
}

json_t *pack_tables(const json_t *object)
{
    struct packer pack = {.places = json_object()};
    count_texts(&pack, object);
    json_t *texts = rank_texts(&pack);
    json_t *packed = pack_value(&pack, object);
    set(&pack, packed, "texts", texts);
    json_decref(pack.places);
    if (pack.failed) {
        json_decref(packed);
        return NULL;
    }
    return packed;
}

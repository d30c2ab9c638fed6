/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include "dump.h"

enum { LINE_MAX = 100, FIRST_MIN = 16, LAYERS_MAX = 14, GAP = 2 };

static bool same_cells(const struct dump_table_row *row, const char *const *cells)
{
    for (size_t c = 0; c < DUMP_TABLE_COLUMNS && cells[c]; c++)
        if (strcmp(row->cells[c], cells[c]) != 0)
            return false;
    return true;
}

/* Where the layer comes in the row's; their number if it is there already. */
static bool has_place(const struct dump_table_row *row, uint32_t layer, size_t *place)
{
    for (*place = row->layers.count; *place > 0; --*place)
        if (row->layers.items[*place - 1] <= layer)
            return row->layers.items[*place - 1] < layer;
    return row->layers.count > 0;
}

remat_status dump_table_add(struct dump_table *table, int32_t layer,
                            const char *const cells[DUMP_TABLE_COLUMNS])
{
    remat_status st = REMAT_OK;
    struct dump_table_row *row = NULL, added = {0};
    size_t place = 0;
    for (size_t r = 0; r < table->rows.count && layer >= 0 && !row; r++)
        if (same_cells(&table->rows.items[r], cells) &&
            has_place(&table->rows.items[r], (uint32_t)layer, &place))
            row = &table->rows.items[r];
    if (!row) {
        memcpy(added.cells, cells, sizeof added.cells);
        REMAT_TRY_PUSH(table->arena, &table->rows, added);
        row = &table->rows.items[table->rows.count - 1];
        place = 0;
    }
    if (layer >= 0) {
        REMAT_TRY_PUSH(table->arena, &row->layers, 0);
        uint32_t *at = &row->layers.items[place];
        memmove(at + 1, at, (row->layers.count - 1 - place) * sizeof *at);
        *at = (uint32_t)layer;
    }
fail:
    return st;
}

static const char *layers_of(const struct dump_table *table, const struct dump_table_row *row)
{
    return row->layers.count ? dump_ranges(table->arena, row->layers.items, row->layers.count)
                             : "-";
}

/* Of the columns; the last one is that of the layers, 0: there are none. */
struct widths {
    size_t of[DUMP_TABLE_COLUMNS + 1];
};

static void widen(size_t *width, const char *text, size_t most)
{
    size_t length = strlen(text) < most ? strlen(text) : most;
    *width = length > *width ? length : *width;
}

static struct widths find_widths(const struct dump_table *table)
{
    struct widths widths = {0};
    size_t line = 0, *layers = &widths.of[DUMP_TABLE_COLUMNS];
    for (size_t c = 0; c < DUMP_TABLE_COLUMNS && table->titles[c]; c++)
        widen(&widths.of[c], table->titles[c], LINE_MAX);
    for (size_t r = 0; r < table->rows.count; r++) {
        const struct dump_table_row *row = &table->rows.items[r];
        for (size_t c = 0; c < DUMP_TABLE_COLUMNS && row->cells[c]; c++)
            widen(&widths.of[c], row->cells[c], LINE_MAX);
        if (row->layers.count) {
            widen(layers, "layers", LAYERS_MAX);
            widen(layers, layers_of(table, row), LAYERS_MAX);
        }
    }
    for (size_t c = 0; c <= DUMP_TABLE_COLUMNS; c++)
        line += widths.of[c] ? widths.of[c] + GAP : 0;
    size_t over = line > LINE_MAX + GAP ? line - LINE_MAX - GAP : 0;
    if (over)
        widths.of[0] = widths.of[0] > over + FIRST_MIN ? widths.of[0] - over : FIRST_MIN;
    return widths;
}

static void print_cell(struct remat_text *out, const char *text, size_t width, bool right,
                       bool last)
{
    size_t length = strlen(text) < width ? strlen(text) : width;
    int padding = (int)(width - length);
    remat_text_append(out, "%*s", right ? padding : 0, "");
    dump_append_name(out, text, width);
    remat_text_append(out, "%*s", right || last ? 0 : padding, "");
    remat_text_append(out, last ? "\n" : "  ");
}

static void print_row(const struct dump_table *table, const char *const *cells, const char *layers,
                      const struct widths *widths, struct remat_text *out)
{
    for (size_t c = 0; c < DUMP_TABLE_COLUMNS && cells[c]; c++) {
        bool last = c + 1 == DUMP_TABLE_COLUMNS || !cells[c + 1];
        print_cell(out, cells[c], widths->of[c], table->right[c], last);
        if (c == 0 && widths->of[DUMP_TABLE_COLUMNS])
            print_cell(out, layers, widths->of[DUMP_TABLE_COLUMNS], false, false);
    }
}

void dump_table_print(const struct dump_table *table, struct remat_text *out)
{
    const struct widths widths = find_widths(table);
    print_row(table, table->titles, "layers", &widths, out);
    for (size_t r = 0; r < table->rows.count; r++) {
        const struct dump_table_row *row = &table->rows.items[r];
        if (row->heading)
            remat_text_append(out, "\n%s\n", row->heading);
        print_row(table, row->cells, layers_of(table, row), &widths, out);
    }
}

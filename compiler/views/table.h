/* SPDX-License-Identifier: Apache-2.0 */
/* A table for people, in which equal rows of several layers are one. */
#ifndef REMAT_DUMP_TABLE_H
#define REMAT_DUMP_TABLE_H

#include "base.h"

enum { DUMP_TABLE_COLUMNS = 7 };

struct dump_table_row {
    const char *heading;                   /* a line before it, after an empty one; NULL: none */
    const char *cells[DUMP_TABLE_COLUMNS]; /* NULL from the table's last column on */
    struct REMAT_LIST(uint32_t) layers;    /* ascending; none outside layers */
};

struct dump_table {
    struct remat_arena *arena;
    const char *titles[DUMP_TABLE_COLUMNS];
    bool right[DUMP_TABLE_COLUMNS]; /* columns that are aligned at the right */
    struct REMAT_LIST(struct dump_table_row) rows;
};

/* Names have their layer as "*" (dump_pattern). Takes the cells, whose texts stay where they are.
 */
remat_status dump_table_add(struct dump_table *table, int32_t layer,
                            const char *const cells[DUMP_TABLE_COLUMNS]);

/* After the first column comes one of the layers, if there are any. Lines have at most 100 columns
 * if the first one can be made so narrow, names in it shortened. */
void dump_table_print(const struct dump_table *table, struct remat_text *out);

#endif

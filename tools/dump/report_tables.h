/* SPDX-License-Identifier: Apache-2.0 */
/* JSON in less space, for the report. */
#ifndef REMAT_DUMP_REPORT_TABLES_H
#define REMAT_DUMP_REPORT_TABLES_H

#include <jansson.h>

/* The object with each array of objects in it as a table, and with "texts", an array:
 *
 *     {"rows": 2, "columns": {"name": {"texts": [0, 4]}, "bytes": {"values": [256, null]}}}
 *
 * A column has a row's value, null also where the object lacks the key. Its form is one of
 *
 *     texts    places in "texts", or null
 *     values   as they are
 *     objects  1, or null for none, and "of": the objects, a table
 *     lists    the length of each array of objects, or null, and "of": them all, a table
 *
 * and with "runs": [3, 1] the first is that of three rows, the second of one. NULL: out of memory.
 */
json_t *pack_tables(const json_t *object);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Python's pickle format, protocol 2: data alone, of the few kinds that a memory snapshot has. */
#ifndef REMAT_DUMP_PICKLE_WRITER_H
#define REMAT_DUMP_PICKLE_WRITER_H

#include "base.h"

/* Each appends bytes to `out`: one value, between these two. */
void pickle_begin(struct remat_text *out);
void pickle_end(struct remat_text *out);

void pickle_integer(struct remat_text *out, uint64_t value);
void pickle_boolean(struct remat_text *out, bool value);
/* Text that others wrote is UTF-8 then: what is not is shown as in messages (show.h). */
void pickle_text(struct remat_text *out, const char *text);

/* Between these keys, each a text with its value after it. */
void pickle_dict(struct remat_text *out);
void pickle_dict_end(struct remat_text *out);
/* Begins as empty; each value that follows is then added. */
void pickle_list(struct remat_text *out);
void pickle_add(struct remat_text *out);
void pickle_pair(struct remat_text *out); /* makes a tuple of the two values before it */

/* Keeps the value before it by a number, for where it comes again. */
void pickle_keep(struct remat_text *out, uint32_t number);
void pickle_kept(struct remat_text *out, uint32_t number);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The files that people give by mistake. */
#ifndef REMAT_FILE_KIND_H
#define REMAT_FILE_KIND_H

#include <stddef.h>

/* What the bytes are when they are neither graph nor plan, "" when unknown. */
const char *remat_foreign_file(const void *data, size_t bytes);

#endif

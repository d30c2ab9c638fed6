/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REMAT_TOOLS_COMPILE_DIVISIONS_REPORT_H
#define REMAT_TOOLS_COMPILE_DIVISIONS_REPORT_H

#include "divisions.h"

void divisions_print_text(const struct remat_divisions *divisions);
void divisions_print_json(
    const struct remat_divisions *divisions); /* a member, with a comma after it */

#endif

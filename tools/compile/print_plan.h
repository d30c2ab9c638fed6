/* SPDX-License-Identifier: Apache-2.0 */
/* --print-plan: the callbacks of struct remat_compile_settings that print a search;
 * `user` is a bool, false at first. */
#ifndef REMAT_TOOLS_COMPILE_PRINT_PLAN_H
#define REMAT_TOOLS_COMPILE_PRINT_PLAN_H

#include "compile.h"

void print_plan_bound(void *user, const struct remat_binding *binding);
void print_plan_tried(void *user, const struct remat_tried_list *list);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Each op with a rule for layouts, on operands that ranks along tp divide in every way that the
 * rule knows: the program of 2 and of 4 ranks gives what that of one rank does. Elements are small
 * whole numbers, so that sums are exact in any order, and each counts with a weight of its own. */
#include "layout_cases.h"
#include "ops.h"

/* Not run: a table whose ids f32 does not count exactly has all rows on every rank. */
#define LONG(name)                                                                                 \
    "parameter %long : f32[16777224,8] frozen\n%" name " : f32[4,8] = embedding %long %ids" F
static const struct layout_case large[] = {
    {"embedding of a long table", 32, 'w', false, LONG("m")},
    {"embedding_backward of a long table", 134217792, 'w', false,
     LONG("e") "%y : f32[4,8] = mul %e %e" F
               "%m : f32[16777224,8] = embedding_backward %y %ids { rows = 16777224 }" F},
};

/* All with a rule, but `assign`, which ends a step and not a graph of one output. */
static void test_covered(void)
{
    for (uint16_t op = 0; op < REMAT_OP_COUNT; op++) {
        const struct remat_op_info *info = remat_op_info(op);
        char use[64];
        bool covered = info->layout == REMAT_RULE_whole || op == REMAT_OP_assign;
        snprintf(use, sizeof use, "= %s ", info->name);
        for (size_t k = 0; k < layout_case_count; k++)
            covered |= strstr(layout_cases[k].text, use) != NULL;
        CHECK(covered, "%s has a rule and no case", info->name);
    }
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    layouts_check_found(ctx, large, COUNT(large), false);
    layouts_check_all(ctx, layout_cases, layout_case_count, false);
    layouts_check_all(ctx, layout_token_cases, layout_token_case_count, true);
    test_covered();
    remat_context_destroy(&ctx);
    return check_exit();
}

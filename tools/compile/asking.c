/* SPDX-License-Identifier: Apache-2.0 */
#include "asking.h"

#include "options.h"

static bool is_of_output(uint32_t option)
{
    return option == OPTION_output || option == OPTION_format || option == OPTION_verbose ||
           option == OPTION_print_after || option == OPTION_print_plan ||
           option == OPTION_explain || option == OPTION_emit_cuda || option == OPTION_curve;
}

remat_status asking(struct remat_arena *arena, const struct cli_arguments *args,
                    struct remat_asked *out)
{
    remat_status st = REMAT_OK;
    *out = (struct remat_asked){.model = args->operands[0]};
    REMAT_TRY_NEW(arena, out->items, args->given_count);
    for (uint32_t i = 0; i < args->given_count; i++)
        if (!is_of_output(args->given[i].option))
            out->items[out->count++] = (struct remat_setting){
                args->tool->options[args->given[i].option].name, args->given[i].value};
fail:
    return st;
}

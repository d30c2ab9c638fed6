/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters are counted in the graph itself, so that the list cannot be wrong. */
#include "list.h"

#include "config.h"
#include "models.h"
#include "unwind.h"
#include "wrap.h"

static double count_parameters(const struct remat_graph *graph)
{
    double elements = 0;
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].role == REMAT_ROLE_PARAMETER)
            elements += (double)remat_shape_elements(&graph->values[v].shape);
    return elements;
}

/* "8.03 B": three digits of a number of 1000 or more. */
static void print_count(double count)
{
    static const char units[] = "kMBT";
    size_t k = 0;
    for (count /= 1e3; count >= 999.5 && k + 2 < sizeof units; k++)
        count /= 1e3;
    printf("%8.*f %c", count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2, count, units[k]);
}

static remat_status print_preset(remat_context *ctx, const char *name)
{
    struct remat_model_settings s;
    struct remat_graph *graph;
    struct remat_arena *scratch = remat_scratch_open(ctx);
    REMAT_CHECK(remat_model_preset(ctx, name, &s));
    if (s.layers == 0) {
        printf("  %-12s %10s  sizes as given by options\n", name, "");
    } else {
        REMAT_CHECK(remat_model_generate(ctx, scratch, &s, &graph));
        printf("  %-12s ", name);
        print_count(count_parameters(graph));
        const char *alias = remat_model_alias(name);
        printf(" %6lld %6lld%s%s\n", (long long)s.layers, (long long)s.width, alias ? "  " : "",
               alias ? alias : "");
    }
    remat_scratch_close(scratch);
    return REMAT_OK;
}

static remat_status print_models(void *user)
{
    remat_context *ctx = user;
    struct remat_arena *scratch = remat_scratch_open(ctx);
    printf("  %-12s %10s %6s %6s  %s\n", "preset", "parameters", "layers", "width", "also");
    for (uint32_t k = 0; remat_model_name(k); k++)
        REMAT_CHECK(print_preset(ctx, remat_model_name(k)));
    cli_print(stdout, "  config.json  of model type %s\n", remat_config_types(scratch));
    remat_scratch_close(scratch);
    return REMAT_OK;
}

remat_status remat_model_list(remat_context *ctx)
{
    return remat_guard(ctx, print_models, ctx);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "corpus.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decision.h"
#include "graph_text.h"

static const char *const described = "h100-sxm";

static remat_status read_text(remat_context *ctx, const char *path, struct remat_text *out)
{
    char line[1024];
    FILE *file = fopen(path, "r");
    if (!file)
        return remat_error(ctx, REMAT_ERROR_IO, "%s: cannot open", path);
    while (fgets(line, sizeof line, file))
        remat_text_append(out, "%s", line);
    fclose(file);
    return REMAT_OK;
}

/* What stands after "# what:" in a line of its own; NULL: no such line. */
static const char *find_setting(const char *text, const char *what)
{
    char begin[64];
    snprintf(begin, sizeof begin, "\n# %s:", what);
    const char *line = strstr(text, begin);
    return line ? line + strlen(begin) : NULL;
}

static double number(const char *text, const char *what, double otherwise)
{
    const char *setting = find_setting(text, what);
    return setting ? strtod(setting, NULL) : otherwise;
}

static void read_device(const char *text, struct remat_device_description *d)
{
    double matmul = number(text, "matmul_flops_per_ns", d->matmul_flops_per_ns[REMAT_F32]) /
                    d->matmul_flops_per_ns[REMAT_F32];
    for (int t = 0; t < REMAT_DTYPE_COUNT; t++)
        d->matmul_flops_per_ns[t] *= matmul;
    d->pointwise_flops_per_ns = number(text, "pointwise_flops_per_ns", d->pointwise_flops_per_ns);
    d->memory_bytes_per_ns = number(text, "memory_bytes_per_ns", d->memory_bytes_per_ns);
    d->launch_ns = number(text, "launch_ns", d->launch_ns);
    d->within.latency_ns = number(text, "latency_ns", d->within.latency_ns);
    d->within.bytes_per_ns = number(text, "link_bytes_per_ns", d->within.bytes_per_ns);
}

static void read_pins(const char *text, const char *what, struct remat_text *out)
{
    const char *names = find_setting(text, what);
    if (names)
        remat_text_append(out, "%.*s ", (int)strcspn(names, "\n"), names);
}

remat_status corpus_read(struct subject *s, const char *name, struct corpus *out,
                         struct remat_graph **source)
{
    remat_status st = REMAT_OK;
    struct remat_text text = {.arena = &s->arena};
    const char *path = remat_arena_format(&s->arena, CORPUS_FOLDER "/%s.graph", name);
    REMAT_TRY(read_text(s->ctx, path, &text));
    REMAT_TRY(remat_device_description_read(s->ctx, &s->arena, described, 0, &s->device));
    read_device(text.items, &s->device);
    s->tensor = find_setting(text.items, "tp");
    s->ranks = (uint32_t)number(text.items, s->tensor ? "tp" : "dp", 0);
    s->zero = (uint32_t)number(text.items, "zero", 0);
    *out = (struct corpus){
        .microbatches = (uint32_t)number(text.items, "microbatches", 1),
        .profile = find_setting(text.items, "profile"),
        .pins = {{.arena = &s->arena}, {.arena = &s->arena}},
    };
    const char *random = find_setting(text.items, "random");
    if (random)
        sscanf(random, "%" SCNu32 "%" SCNu32, &out->random.seed, &out->random.draws);
    read_pins(text.items, "save", &out->pins[0]);
    read_pins(text.items, "recompute", &out->pins[1]);
    REMAT_TRY(remat_graph_parse(s->ctx, path, text.items, text.count, &s->arena, source));
fail:
    return st;
}

bool corpus_pins(const struct corpus *c, uint8_t action, const char *name)
{
    const struct remat_text *pins = &c->pins[action != REMAT_ACTION_SAVE];
    const char *word = remat_arena_format(pins->arena, " %s ", name);
    return pins->count && strstr(pins->items, word);
}

void corpus_print(const struct subject *s, const struct corpus *c, const struct remat_graph *source)
{
    struct remat_text text = {.arena = (struct remat_arena *)&s->arena};
    const struct remat_device_description *d = &s->device;
    remat_graph_print(source, &text);
    printf("\n# random: %u %u\n", c->random.seed, c->random.draws);
    printf("# matmul_flops_per_ns: %.17g\n# pointwise_flops_per_ns: %.17g\n"
           "# memory_bytes_per_ns: %.17g\n# launch_ns: %.17g\n",
           d->matmul_flops_per_ns[REMAT_F32], d->pointwise_flops_per_ns, d->memory_bytes_per_ns,
           d->launch_ns);
    if (s->ranks)
        printf("# %s: %u\n# zero: %u\n# latency_ns: %.17g\n# link_bytes_per_ns: %.17g\n",
               s->tensor ? "tp" : "dp", s->ranks, s->zero, d->within.latency_ns,
               d->within.bytes_per_ns);
    if (c->microbatches > 1)
        printf("# microbatches: %u\n", c->microbatches);
    if (c->profile)
        printf("# profile: noisy\n");
    for (int k = 0; k < 2; k++)
        if (c->pins[k].count)
            printf("# %s:%.*s\n", k ? "recompute" : "save", (int)c->pins[k].count - 1,
                   c->pins[k].items);
    printf("%.*s", (int)text.count, text.items);
}

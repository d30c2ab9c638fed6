/* SPDX-License-Identifier: Apache-2.0 */
/* --kernels: each distinct kernel, the most expensive first. */
#include "dump.h"
#include "size.h"
#include "views.h"

#include <inttypes.h>
#include <stdlib.h>

struct usage {
    uint32_t kernel, uses;
    uint64_t ns;
};

static int by_time(const void *a, const void *b)
{
    const struct usage *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? 1 : -1;
    return (x->kernel > y->kernel) - (x->kernel < y->kernel);
}

static struct usage *sum_usage(struct remat_arena *arena, const struct remat_program *program)
{
    struct usage *usage = remat_arena_array(arena, program->kernel_count, sizeof *usage);
    if (!usage)
        return NULL;
    for (uint32_t k = 0; k < program->kernel_count; k++)
        usage[k].kernel = k;
    for (uint32_t c = 0; c < program->command_count; c++) {
        usage[program->commands[c].kernel].uses++;
        usage[program->commands[c].kernel].ns += program->commands[c].estimated_ns;
    }
    qsort(usage, program->kernel_count, sizeof *usage, by_time);
    return usage;
}

/* The instructions, one a line; "" for built-in kernels. */
static const char *print_program(struct remat_arena *arena, const struct remat_kernel *kernel)
{
    struct remat_text text = {.arena = arena};
    if (kernel->kind == REMAT_KERNEL_fused)
        remat_kernel_body_print(&kernel->body, &text);
    return text.count && !text.failed ? text.items : "";
}

remat_status dump_kernels_text(remat_context *ctx, struct remat_arena *arena,
                               const struct remat_program *program, const struct dump_asked *asked,
                               struct remat_text *out)
{
    (void)ctx, (void)asked;
    const struct usage *usage = sum_usage(arena, program);
    if (!usage)
        return REMAT_ERROR_MEMORY;
    for (uint32_t i = 0; i < program->kernel_count; i++) {
        const struct remat_kernel *kernel = &program->kernels[usage[i].kernel];
        remat_text_append(out, "%s: %s, %" PRIu32 " %s, %s\n", kernel->key,
                          remat_kernel_kind_name(kernel->kind), usage[i].uses,
                          usage[i].uses == 1 ? "use" : "uses", remat_time_text(usage[i].ns).text);
        for (const char *line = print_program(arena, kernel); *line;) {
            size_t length = strcspn(line, "\n");
            remat_text_append(out, "    %.*s\n", (int)length, line);
            line += length + (line[length] == '\n');
        }
    }
    return dump_cuda_text(arena, program, out);
}

static json_t *make_instructions(struct remat_arena *arena, const struct remat_kernel *kernel,
                                 struct dump_json *out)
{
    json_t *lines = json_array();
    for (const char *line = print_program(arena, kernel); *line;) {
        size_t length = strcspn(line, "\n");
        dump_push(out, lines, json_stringn(line, length));
        line += length + (line[length] == '\n');
    }
    return lines;
}

remat_status dump_kernels_json(remat_context *ctx, struct remat_arena *arena,
                               const struct remat_program *program, const struct dump_asked *asked,
                               struct dump_json *out)
{
    (void)ctx, (void)asked;
    const struct usage *usage = sum_usage(arena, program);
    if (!usage)
        return REMAT_ERROR_MEMORY;
    json_t *kernels = json_array();
    for (uint32_t i = 0; i < program->kernel_count; i++) {
        const struct remat_kernel *kernel = &program->kernels[usage[i].kernel];
        dump_push(out, kernels,
                  json_pack("{s:s,s:s,s:I,s:I,s:o}", "key", kernel->key, "kind",
                            remat_kernel_kind_name(kernel->kind), "uses", (json_int_t)usage[i].uses,
                            "estimated_ns", (json_int_t)usage[i].ns, "instructions",
                            make_instructions(arena, kernel, out)));
    }
    dump_set(out, "kernels", kernels);
    return dump_cuda_json(arena, program, out);
}

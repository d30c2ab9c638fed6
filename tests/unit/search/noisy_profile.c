/* SPDX-License-Identifier: Apache-2.0 */
#include "noisy_profile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "analysis.h"
#include "kernel_body.h"
#include "philox.h"
#include "profile.h"

enum { PLANS = 3 }; /* that compute a third, two thirds and all again, beside the plain one */

struct recorder {
    struct subject *subject;
    FILE *file;
    uint32_t seed, draws;
    struct keys { /* hashes of the rows so far */
        uint64_t *items;
        size_t count, capacity;
    } keys;
};

/* In [0, 1). */
static double draw(struct recorder *r)
{
    uint32_t bits[4];
    philox((const uint32_t[4]){r->draws++}, (const uint32_t[2]){r->seed}, bits);
    return bits[0] / 4294967296.0;
}

static void describe(const struct remat_graph *g, const struct remat_kernel_info *kernel,
                     struct remat_text *out)
{
    if (kernel->kind == REMAT_KERNEL_fused)
        remat_text_append(out, "{\"kernel\": \"#%08" PRIx32 "\"", remat_kernel_key_hash(kernel));
    else
        remat_text_append(out, "{\"kernel\": \"%s\"", remat_kernel_kind_name(kernel->kind));
    remat_text_append(out, ", \"operands\": \"");
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_kernel_operand *from = &kernel->operands[o];
        struct remat_operand operand = {.dtype = (uint8_t)g->values[from->value.i].dtype,
                                        .rank = (uint8_t)from->view->rank};
        char text[REMAT_OPERAND_TEXT_BYTES];
        memcpy(operand.shape, from->view->shape, sizeof operand.shape);
        memcpy(operand.strides, from->view->strides, sizeof operand.strides);
        remat_operand_print(&operand, text, sizeof text);
        remat_text_append(out, "%s%s", o ? " " : "", text);
    }
}

static remat_status record_kernel(struct recorder *r, const struct remat_graph *g,
                                  const struct remat_kernel_info *kernel, uint32_t plan)
{
    remat_status st = REMAT_OK;
    struct subject *s = r->subject;
    struct remat_text text = {.arena = &s->arena};
    struct remat_price price = remat_price_kernel(g, kernel, &s->device);
    describe(g, kernel, &text);
    remat_text_append(&text, "\", \"flops\": %" PRIu64 ", \"moved_bytes\": %" PRIu64, price.flops,
                      price.moved_bytes);
    uint64_t key = remat_hash(text.items, text.count, 0);
    for (size_t k = 0; k < r->keys.count; k++)
        if (r->keys.items[k] == key)
            return REMAT_OK;
    REMAT_TRY_PUSH(&s->arena, &r->keys, key);
    double launch = s->device.launch_ns, busy = (double)price.ns - launch;
    double ns = launch * (0.2 + 0.4 * draw(r));
    ns += busy * exp((plan ? -1.2 : 1.2) * draw(r));
    if (draw(r) < 0.7)
        fprintf(r->file, "%s%s, \"count\": %zu, \"median_ns\": %.0f}", ftell(r->file) ? "," : "",
                text.items, 1 + r->keys.count % 5, ceil(ns));
fail:
    return st;
}

static remat_status record_plan(struct recorder *r, uint32_t plan)
{
    remat_status st = REMAT_OK;
    struct subject *s = r->subject;
    struct remat_decision decision;
    struct remat_kernel_list list;
    struct remat_facts facts;
    remat_decision_create(&s->arena, s->graph->value_count, &decision);
    remat_facts_create(&s->arena, s->graph, &facts);
    for (uint32_t v = 0; v < s->graph->value_count; v++)
        if (facts.recomputable[v])
            decision.actions[v] = draw(r) * PLANS < plan ? REMAT_ACTION_INLINE : REMAT_ACTION_SAVE;
    list = subject_kernels(&s->evaluator, &s->arena, &decision);
    for (uint32_t k = 0; k < list.count; k++)
        REMAT_TRY(record_kernel(r, s->evaluator.clones.graph, &list.kernels[k], plan));
fail:
    return st;
}

static remat_status read_back(struct subject *s, const char *rows, const char *path)
{
    remat_status st = REMAT_OK;
    FILE *file = fopen(path, "w");
    fprintf(file,
            "{\"schema\": \"remat-profile/1\", \"producer\": \"p\", \"device\": \"%s\", "
            "\"arch\": \"%s\", "
            "\"kernels\": [%s]}",
            s->device.cuda_arch ? s->device.gpus[0] : s->device.name,
            s->device.cuda_arch ? s->device.cuda_arch : "", rows);
    fclose(file);
    REMAT_TRY(remat_profile_read(s->ctx, &s->arena, path, "p", &s->device, &s->device.profile));
    remat_evaluator_release(&s->evaluator);
    remat_evaluator_init(&s->evaluator, &s->arena, s->graph, &s->persistent, &s->device, NULL,
                         &s->watch);
fail:
    remove(path);
    return st;
}

remat_status noisy_profile(struct subject *s, uint32_t seed)
{
    remat_status st = REMAT_OK;
    char path[64], *rows = NULL;
    size_t bytes;
    struct recorder r = {.subject = s, .seed = seed, .file = open_memstream(&rows, &bytes)};
    for (uint32_t plan = 0; plan <= PLANS && st == REMAT_OK; plan++)
        st = record_plan(&r, plan);
    fclose(r.file);
    snprintf(path, sizeof path, "/tmp/remat_noisy_%ld.json", (long)getpid());
    if (st == REMAT_OK)
        st = read_back(s, rows, path);
    free(rows);
    return st;
}

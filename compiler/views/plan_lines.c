/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_lines.h"

#include "size.h"

#include <inttypes.h>

void mesh_print(const struct remat_program *p, int width, struct remat_text *out)
{
    char mesh[REMAT_MESH_TEXT_BYTES], depth[24] = "";
    struct remat_communication all = remat_program_communication(p);
    if (p->mesh_count == 0)
        return;
    remat_program_mesh_print(p, mesh);
    if (p->depth)
        snprintf(depth, sizeof depth, ", depth %" PRIu32, p->depth);
    remat_text_append(
        out,
        "%-*s%s: %" PRIu32 " ranks, rank 0 sends %s a step, in %s, of which %s are exposed%s\n",
        width, "mesh", mesh, remat_program_ranks(p), remat_short_text(all.sent_bytes).text,
        remat_time_text(all.ns).text, remat_time_text(all.exposed_ns).text, depth);
}

static bool has_pins(const struct remat_program *p)
{
    for (uint32_t i = 0; i < p->decision_count; i++)
        if (strncmp(p->decisions[i].reason, "pin ", 4) == 0)
            return true;
    return false;
}

void certificate_print(const struct remat_program *p, struct remat_text *out)
{
    if (!p->bound_step_ns)
        return;
    remat_text_append(out,
                      "optimal within %.2f %% under these costs: %sno choice of what to recompute "
                      "that fits takes less than %s",
                      100 * ((double)p->step_ns / (double)p->bound_step_ns - 1),
                      has_pins(p) ? "with these pins " : "",
                      remat_time_text(p->bound_step_ns).text);
    if (p->limited_by && *p->limited_by)
        remat_text_append(out, "; limited by %s%s",
                          strcmp(p->limited_by, "computation") ? "the link along " : "",
                          p->limited_by);
}

void costs_print(const struct remat_program *p, struct remat_text *out)
{
    double shares[REMAT_COST_SOURCES];
    remat_program_cost_shares(p, shares);
    remat_text_append(out, "%.1f %% of the step modelled, %.1f %% interpolated, %.1f %% measured",
                      100 * shares[REMAT_COST_MODELLED], 100 * shares[REMAT_COST_INTERPOLATED],
                      100 * shares[REMAT_COST_MEASURED]);
}

void manuals_print(const struct remat_program *p, int width, struct remat_text *out)
{
    for (uint32_t i = 0; i < p->manual_count; i++) {
        const struct remat_manual *m = &p->manuals[i];
        bool own = strcmp(m->policy, p->policy) == 0;
        remat_text_append(out, "%-*s %s%s", width - 1, m->system,
                          own ? "" : "nearest: ", *m->flags ? m->flags : "no recompute flags");
        if (!own && p->step_ns)
            remat_text_append(out, "; %s a step, %.2f %% slower", remat_time_text(m->step_ns).text,
                              remat_percent_longer(m->step_ns, p->step_ns, 2));
        remat_text_append(out, "\n");
    }
}

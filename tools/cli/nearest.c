#include "nearest.h"

#include "cli.h"

void nearest_print(const struct remat_program *p, struct remat_text *out)
{
    if (!p->manual_policy || !*p->manual_policy)
        return;
    bool own = strcmp(p->manual_policy, p->policy) == 0;
    remat_text_append(out, "%s%s", own ? "" : "nearest: ",
                      *p->manual_flags ? p->manual_flags : "no recompute flags");
    if (!own && p->step_ns)
        remat_text_append(out, "; %s a step, %.2f %% slower", cli_time(p->manual_step_ns).text,
                          100 * ((double)p->manual_step_ns / (double)p->step_ns - 1));
}

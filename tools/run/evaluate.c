/* SPDX-License-Identifier: Apache-2.0 */
#include "evaluate.h"

remat_status evaluate(const struct train_settings *settings, const struct feed *feed, double *mean)
{
    remat_status st = REMAT_OK;
    double total = 0;
    float loss;
    remat_session_set_trace(feed->session, NULL, NULL);
    for (uint64_t step = 1; step <= settings->eval_steps; step++) {
        const struct step_inputs in = {step, settings->seed, 0};
        RUN_TRY(feed_write(feed, &settings->eval_rows, &in));
        RUN_TRY(remat_session_run(feed->session, "eval"));
        RUN_TRY(remat_session_read(feed->session, "loss", &loss, sizeof loss));
        total += (double)loss;
    }
    *mean = total / (double)settings->eval_steps;
fail:
    return st;
}

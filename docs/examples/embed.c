/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a plan for a few steps from a program of one's own, in C or C++:
 * cc embed.c $(pkg-config --cflags --libs remat). Usage: embed PLAN STEPS. */
#include <remat/remat.h>
#include <stdio.h>
#include <stdlib.h>

static remat_status train(remat_session *session, uint64_t token_bytes, int32_t *tokens, int steps)
{
    remat_status st = remat_session_run(session, "init");
    for (int32_t step = 1; st == REMAT_OK && step <= steps; step++) {
        const float lr = 3e-4f;
        float loss = 0;
        for (uint64_t i = 0; i <= token_bytes / 4; i++)
            tokens[i] = (int32_t)((i * i + (uint64_t)step) % 97);
        if ((st = remat_session_write(session, "tokens", tokens, token_bytes)) == REMAT_OK &&
            (st = remat_session_write(session, "targets", tokens + 1, token_bytes)) == REMAT_OK &&
            (st = remat_session_write(session, "lr", &lr, sizeof lr)) == REMAT_OK &&
            (st = remat_session_write(session, "step", &step, sizeof step)) == REMAT_OK &&
            (st = remat_session_run(session, "train")) == REMAT_OK &&
            (st = remat_session_read(session, "loss", &loss, sizeof loss)) == REMAT_OK)
            printf("step %d loss %.6f\n", step, (double)loss);
    }
    return st;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: embed PLAN STEPS\n");
        return 2;
    }
    remat_context *ctx = remat_context_create(NULL, NULL);
    remat_plan *plan = NULL;
    remat_session *session = NULL;
    remat_session_params params;
    remat_tensor_info tokens;
    int32_t *ids = NULL;
    if (!ctx)
        return 1;
    tokens.struct_size = sizeof tokens;
    remat_session_params_init(&params);
    remat_status st = remat_plan_load_file(ctx, argv[1], &plan);
    if (st == REMAT_OK)
        st = remat_session_create(ctx, plan, &params, &session);
    if (st == REMAT_OK &&
        remat_plan_get_tensor(plan, remat_plan_find_tensor(plan, "tokens"), &tokens)) {
        ids = (int32_t *)malloc(tokens.bytes + sizeof *ids);
        st = ids ? train(session, tokens.bytes, ids, atoi(argv[2])) : REMAT_ERROR_MEMORY;
    }
    if (st != REMAT_OK)
        fprintf(stderr, "embed: %s\n", remat_context_message(ctx));
    free(ids);
    remat_session_destroy(&session);
    remat_plan_destroy(&plan);
    remat_context_destroy(&ctx);
    return st;
}

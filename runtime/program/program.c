#include "program.h"

const char *remat_role_name(uint32_t role)
{
    static const char *const names[REMAT_ROLE_COUNT] = {
        [REMAT_ROLE_ACTIVATION] = "activation", [REMAT_ROLE_PARAMETER] = "parameter",
        [REMAT_ROLE_GRADIENT] = "gradient",     [REMAT_ROLE_OPTIMIZER_STATE] = "optimizer state",
        [REMAT_ROLE_INPUT] = "input",           [REMAT_ROLE_CONSTANT] = "constant",
        [REMAT_ROLE_OUTPUT] = "output",
    };
    return role < REMAT_ROLE_COUNT ? names[role] : NULL;
}

const char *remat_phase_name(uint32_t phase)
{
    static const char *const names[REMAT_PHASE_COUNT] = {
        [REMAT_PHASE_FORWARD] = "forward",   [REMAT_PHASE_LOSS] = "loss",
        [REMAT_PHASE_BACKWARD] = "backward", [REMAT_PHASE_OPTIMIZER] = "optimizer",
        [REMAT_PHASE_INIT] = "init",
    };
    return phase < REMAT_PHASE_COUNT ? names[phase] : NULL;
}

uint32_t remat_program_recomputed(const struct remat_program *program)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->decision_count; i++)
        count += program->decisions[i].action == REMAT_ACTION_RECOMPUTE;
    return count;
}

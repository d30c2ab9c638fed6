/* What remat-compile says of the plan it has made, on standard output. */
#ifndef REMAT_TOOLS_COMPILE_REPORT_H
#define REMAT_TOOLS_COMPILE_REPORT_H

#include "policy.h"
#include "program.h"

struct report {
    const struct remat_program *program;
    const char *path;                  /* of the plan */
    const struct remat_policy *chosen; /* before pins; NULL: there are none */
};

void report_print_text(const struct report *report);
void report_print_json(const struct report *report);

#endif

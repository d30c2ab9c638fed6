/* The policies that the end-to-end tests compare. */
#ifndef TESTS_E2E_PLANS_H
#define TESTS_E2E_PLANS_H

#include "policy.h"

struct named_policy {
    const char *name;
    struct remat_policy_settings settings;
};
extern const struct named_policy named_policies[];
extern const unsigned named_policy_count;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Sensitivity: cases counted by hand. */
#include "sensitivity.h"

#include "check.h"
#include "kernel.h"

static void check(const char *what, struct remat_sensitivity s, uint32_t held, uint32_t worst,
                  double lost)
{
    CHECK(s.held == held, "%s: held in %u, expected %u", what, s.held, held);
    CHECK(s.worst == worst, "%s: worst %u, expected %u", what, s.worst, worst);
    CHECK(s.lost > lost - 1e-9 && s.lost < lost + 1e-9, "%s: lost %g, expected %g", what, s.lost,
          lost);
}

int main(void)
{
    const struct remat_class_times alone[] = {{{5, 6, 7}}};
    check("alone", remat_sensitivity_of(alone, 1, 0), 26, 0, 0);
    /* dearer in every class: never faster */
    const struct remat_class_times dearer[] = {{{5, 6, 7}}, {{6, 6, 7}}};
    check("dearer", remat_sensitivity_of(dearer, 2, 0), 26, 0, 0);
    /* 100 of matmul against 110 of the rest: slower where 100 x > 110 y, that is for (x, y) in (1,
     * 0.8), (1.2, 0.8), (1.2, 1), attention being any of three; the most at 120 against 88 */
    const struct remat_class_times apart[] = {{{100, 0, 0}}, {{0, 0, 110}}};
    check("apart", remat_sensitivity_of(apart, 2, 0), 26 - 9, 1, 120.0 / 88 - 1);
    /* beside 1000 of attention, which scales as well */
    const struct remat_class_times beside[] = {
        {{0, 1000, 110}}, {{0, 1000, 120}}, {{100, 1000, 11}}};
    check("beside", remat_sensitivity_of(beside, 3, 0), 26 - 9, 2,
          (800 + 132.0) / (800 + 80 + 13.2) - 1);
    /* 120 * 0.8 < 80 * 1.2 + 1, but not 121 * 0.8 */
    const struct remat_class_times more = {{120, 0, 0}}, most = {{121, 0, 0}}, less = {{0, 80, 1}},
                                   least = {{0, 80, 0}};
    CHECK(remat_sensitivity_may_lead(&more, &less) && remat_sensitivity_may_lead(&least, &more) &&
              !remat_sensitivity_may_lead(&most, &least) &&
              !remat_sensitivity_may_lead(&most, &more) &&
              !remat_sensitivity_may_lead(&most, &most),
          "what may lead");
    CHECK(remat_cost_class_of(REMAT_KERNEL_matmul) == REMAT_COST_MATMUL &&
              remat_cost_class_of(REMAT_KERNEL_attention_backward) == REMAT_COST_ATTENTION &&
              remat_cost_class_of(REMAT_KERNEL_fused) == REMAT_COST_REST,
          "classes");
    return check_exit();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A profile that nobody measured: kernels of some plans of a subject, each with a time of its own.
 */
#ifndef TESTS_UNIT_SEARCH_NOISY_PROFILE_H
#define TESTS_UNIT_SEARCH_NOISY_PROFILE_H

#include "subject.h"

/* Seven in ten kernels of the plan that saves everything, at 1 to 3.3 times their modelled time,
 * and of plans that recompute values inside their readers, at 0.3 to 1 times, which must not
 * count: variants are priced by the kernels that they are made from. Launches at 0.2 to 0.6 times.
 * The subject is evaluated with the profile from then on. */
remat_status noisy_profile(struct subject *subject, uint32_t seed);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REMAT_POLICY_SETTINGS_H
#define REMAT_POLICY_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

typedef const char *const *remat_pin_globs;

/* The settings as given, a field or more for each row of the table: NULL or unset means the option
 * was absent. Strings are borrowed. FIELD_text: as typed, for messages; NULL: the number. */
struct remat_policy_settings {
#define TEXT(field, name) const char *field;
#define FLAG(field, name) bool field;
#define NUMBER(field, name)                                                                        \
    bool has_##field;                                                                              \
    int64_t field;                                                                                 \
    const char *field##_text;
#define GLOBS(field, name)                                                                         \
    uint32_t field##_count;                                                                        \
    remat_pin_globs field;
#include "policy_settings.def"
};

#endif

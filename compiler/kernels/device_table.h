/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptions in schemas/devices, built in by schemas/devices/embed.py. */
#ifndef REMAT_DEVICE_TABLE_H
#define REMAT_DEVICE_TABLE_H

struct remat_device_text {
    const char *name, *json;
    const char *profile; /* NAME.profile.json; NULL: there is none */
};
extern const struct remat_device_text remat_device_texts[];
extern const unsigned remat_device_text_count;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Names come from others; in the JSON no '<' is left that could end the element it stands in, and
 * the scripts make no markup. */
#include "page.h"

/* `json` as it may stand in an element "script". */
static void append_data(struct remat_text *out, const char *json)
{
    for (const char *end; *json; json = end) {
        end = json + strcspn(json, "<");
        remat_text_append(out, "%.*s", (int)(end - json), json);
        if (*end) {
            remat_text_append(out, "\\u003c");
            end++;
        }
    }
}

remat_status page_append(remat_context *ctx, const char *const *head, const char *const *tail,
                         const struct dump_json *data, int digits, struct remat_text *out)
{
    char *json = data->failed ? NULL
                              : json_dumps(data->object, JSON_COMPACT | JSON_ENSURE_ASCII |
                                                             JSON_REAL_PRECISION(digits));
    if (!json)
        return remat_error(ctx, REMAT_ERROR_OTHER,
                           "cannot make the page: out of memory, or a name is not UTF-8");
    for (const char *const *line = head; *line; line++)
        remat_text_append(out, "%s", *line);
    append_data(out, json);
    for (const char *const *line = tail; *line; line++)
        remat_text_append(out, "%s", *line);
    free(json);
    return REMAT_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "template.h"

#include <assert.h>

static const struct cuda_constant *find(const struct cuda_constant *constants, uint32_t count,
                                        const char *name, size_t length)
{
    uint32_t c = 0;
    while (c < count &&
           (strlen(constants[c].name) != length || memcmp(constants[c].name, name, length) != 0))
        c++;
    assert(c < count);
    return &constants[c];
}

void cuda_write_template(struct cuda_source *s, const char *body,
                         const struct cuda_constant *constants, uint32_t count)
{
    size_t length;
    for (; body[length = strcspn(body, "@")]; body += length + 1) {
        remat_text_append(s->out, "%.*s", (int)length, body);
        body += length + 1;
        length = strcspn(body, "@");
        assert(body[length]);
        const struct cuda_constant *constant = find(constants, count, body, length);
        if (constant->text)
            remat_text_append(s->out, "%s", constant->text);
        else
            remat_text_append(s->out, "%llu", (unsigned long long)constant->value);
    }
    remat_text_append(s->out, "%s", body);
}

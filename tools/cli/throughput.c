/* SPDX-License-Identifier: Apache-2.0 */
#include "throughput.h"

#include <stdio.h>
#include <string.h>

struct cli_throughput cli_throughput(uint64_t tokens, uint32_t ranks, uint64_t model_ns,
                                     uint64_t step_ns)
{
    struct cli_throughput out = {0};
    if (step_ns == 0)
        return out;
    out.tokens_per_s = (double)tokens * 1e9 / (double)step_ns;
    out.rank_tokens_per_s = out.tokens_per_s / ranks;
    out.mfu = (double)model_ns / (double)step_ns;
    return out;
}

struct cli_buffer cli_rate(double rate)
{
    struct cli_buffer out;
    char digits[CLI_TEXT_BYTES / 2];
    int count = snprintf(digits, sizeof digits, "%.*f", rate < 100 ? 2 : 0, rate);
    const char *point = strchr(digits, '.');
    int whole = point ? (int)(point - digits) : count, length = 0;
    for (int i = 0; digits[i]; i++) {
        if (i > 0 && i < whole && (whole - i) % 3 == 0)
            out.text[length++] = ',';
        out.text[length++] = digits[i];
    }
    out.text[length] = 0;
    return out;
}

struct cli_buffer cli_throughput_text(const struct cli_throughput *throughput, uint32_t ranks,
                                      const char *rank)
{
    struct cli_buffer out = {""};
    size_t length = 0;
    if (throughput->tokens_per_s > 0)
        length += (size_t)snprintf(out.text, sizeof out.text, "%s tokens/s",
                                   cli_rate(throughput->tokens_per_s).text);
    if (length && ranks > 1)
        length += (size_t)snprintf(out.text + length, sizeof out.text - length, ", %s a %s",
                                   cli_rate(throughput->rank_tokens_per_s).text, rank);
    if (throughput->mfu > 0 && length < sizeof out.text)
        snprintf(out.text + length, sizeof out.text - length, "%sMFU %.1f %%", length ? "; " : "",
                 100 * throughput->mfu);
    return out;
}

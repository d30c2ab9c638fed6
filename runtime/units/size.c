/* SPDX-License-Identifier: Apache-2.0 */
/* Byte sizes as people write and read them. */
#include "size.h"

#include "base.h"

#include <assert.h>
#include <inttypes.h>
#include <strings.h>

static const struct size_unit {
    const char *name;
    uint64_t bytes;
} units[] = {
    {"B", 1},
    {"kB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
};

/* A decimal number: digits [integer, dot) and [fraction, end). */
struct decimal {
    const char *integer, *dot, *fraction, *end;
};

static const char *skip_digits(const char *text)
{
    while (*text >= '0' && *text <= '9')
        text++;
    return text;
}

static bool scan_decimal(const char *text, struct decimal *out)
{
    out->integer = text;
    out->dot = out->fraction = out->end = skip_digits(text);
    if (*out->dot == '.') {
        out->fraction = out->dot + 1;
        out->end = skip_digits(out->fraction);
    }
    return out->dot > out->integer && (*out->dot != '.' || out->end > out->fraction);
}

/* floor(number * unit), false on overflow. Exact: nested floors of integers are one floor. */
static bool scale(const struct decimal *number, uint64_t unit, uint64_t *bytes)
{
    uint64_t whole = 0;
    for (const char *c = number->integer; c < number->dot; c++)
        if (!remat_mul_u64(whole, 10, &whole) ||
            !remat_add_u64(whole, (uint64_t)(*c - '0'), &whole))
            return false;
    uint64_t part = 0;
    for (const char *c = number->end; c > number->fraction; c--)
        part = ((uint64_t)(c[-1] - '0') * unit + part) / 10;
    return remat_mul_u64(whole, unit, bytes) && remat_add_u64(*bytes, part, bytes);
}

static void group_digits(uint64_t n, char out[REMAT_UNIT_TEXT_BYTES])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, n), at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
}

static remat_status fail_bare(remat_context *ctx, const char *setting, const char *text,
                              const struct decimal *number)
{
    static const char letters[] = "kmgt";
    int which = (int)(strchr(letters, *number->end | 0x20) - letters);
    const struct size_unit *readings[2] = {&units[1 + which], &units[5 + which]};
    char grouped[2][REMAT_UNIT_TEXT_BYTES];
    for (int i = 0; i < 2; i++) {
        uint64_t bytes;
        if (!scale(number, readings[i]->bytes, &bytes))
            return remat_error(ctx, REMAT_ERROR_USAGE, "%s '%s': too large", setting, text);
        group_digits(bytes, grouped[i]);
    }
    int length = (int)(number->end - number->integer);
    return remat_error(ctx, REMAT_ERROR_USAGE,
                       "%s '%s' is ambiguous: write %.*s%s (%s B) or %.*s%s (%s B)", setting, text,
                       length, text, readings[0]->name, grouped[0], length, text, readings[1]->name,
                       grouped[1]);
}

static remat_status take_share(remat_context *ctx, const char *setting, const char *text,
                               const struct decimal *number, uint64_t capacity, uint64_t *bytes)
{
    uint64_t hundredths;
    if (capacity == 0)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s '%s': the capacity of the target is not known, give a size instead",
                           setting, text);
    if (!scale(number, 100, &hundredths) || hundredths > 10000)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s '%s' is out of range (accepted: more than 0%% up to 100%%)", setting,
                           text);
    *bytes = capacity / 10000 * hundredths + capacity % 10000 * hundredths / 10000;
    return REMAT_OK;
}

remat_status remat_size_parse(remat_context *ctx, const char *setting, const char *text,
                              uint64_t capacity, bool zero, uint64_t *bytes)
{
    remat_status st = REMAT_OK;
    const char *sizes = zero ? "a size, or 0" : "a size above 0";
    struct decimal number;
    if (*text == '-' && scan_decimal(text + 1, &number))
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "%s '%s' is negative (accepted: %s)", setting, text,
                   sizes);
    if (!scan_decimal(text, &number))
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE,
                   "%s '%s' is not a size (accepted: bytes, or a number with kB MB GB TB KiB MiB "
                   "GiB TiB)",
                   setting, text);
    const char *suffix = number.end + (*number.end == ' ' && number.end[1] != 0);
    const struct size_unit *unit = NULL;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(suffix, units[i].name) == 0)
            unit = &units[i];
    if (strcmp(suffix, "%") == 0)
        REMAT_TRY(take_share(ctx, setting, text, &number, capacity, bytes));
    else if (*suffix && strchr("kKmMgGtT", *suffix) && suffix[1] == 0) {
        number.end = suffix;
        return fail_bare(ctx, setting, text, &number);
    } else if (*suffix && !unit)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE,
                   "%s '%s': unknown unit '%s' (accepted: kB MB GB TB, powers of 1000; KiB MiB GiB "
                   "TiB, powers of 1024; nothing: bytes)",
                   setting, text, suffix);
    else if ((!unit || unit->bytes == 1) && number.end > number.dot)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "%s '%s': a number of bytes must be whole", setting,
                   text);
    else if (!scale(&number, unit ? unit->bytes : 1, bytes) || *bytes > INT64_MAX)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "%s '%s' is too large", setting, text);
    if (*bytes == 0 && !zero)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "%s '%s' is zero (accepted: %s)", setting, text, sizes);
fail:
    return st;
}

static void format_short(double value, const char *const names[5], double step, char *out,
                         size_t capacity)
{
    int unit = 0;
    while (unit < 4 && value >= step) {
        value /= step;
        unit++;
    }
    snprintf(out, capacity, "%.*f %s",
             unit == 0 || value >= 100 ? 0
             : value >= 10             ? 1
                                       : 2,
             value, names[unit]);
}

struct remat_unit_text remat_exact_text(uint64_t bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    struct remat_unit_text out;
    char grouped[REMAT_UNIT_TEXT_BYTES / 2], rounded[REMAT_UNIT_TEXT_BYTES / 3],
        buffer[REMAT_UNIT_TEXT_BYTES];
    group_digits(bytes, buffer);
    snprintf(grouped, sizeof grouped, "%.31s", buffer);
    format_short((double)bytes, names, 1024, rounded, sizeof rounded);
    if (bytes < 1024)
        snprintf(out.text, sizeof out.text, "%s B", grouped);
    else
        snprintf(out.text, sizeof out.text, "%s B (%s)", grouped, rounded);
    return out;
}

struct remat_unit_text remat_count_text(uint64_t number)
{
    struct remat_unit_text out;
    group_digits(number, out.text);
    return out;
}

struct remat_unit_text remat_short_text(uint64_t bytes)
{
    static const char *const names[] = {"B", "kB", "MB", "GB", "TB"};
    struct remat_unit_text out;
    format_short((double)bytes, names, 1000, out.text, sizeof out.text);
    return out;
}

struct remat_unit_text remat_enough_text(uint64_t bytes)
{
    uint64_t unit = 1;
    while (bytes / unit >= 1000)
        unit *= 1000;
    uint64_t digit = unit == 1 || bytes / unit >= 100 ? unit
                     : bytes / unit >= 10             ? unit / 10
                                                      : unit / 100;
    return remat_short_text((bytes + digit - 1) / digit * digit);
}

/* "2.20 GB" -> "2.2 GB", "40.0 MB" -> "40 MB" */
static void drop_zeros(char *text)
{
    char *unit = strchr(text, ' '), *end = unit;
    if (!strchr(text, '.'))
        return;
    while (end[-1] == '0')
        end--;
    end -= end[-1] == '.';
    memmove(end, unit, strlen(unit) + 1);
}

struct remat_unit_text remat_brief_text(uint64_t bytes)
{
    struct remat_unit_text out = remat_short_text(bytes);
    drop_zeros(out.text);
    return out;
}

struct remat_unit_text remat_time_text(uint64_t ns)
{
    static const char *const names[] = {"ns", "us", "ms", "s", "ks"};
    struct remat_unit_text out;
    format_short((double)ns, names, 1000, out.text, sizeof out.text);
    if (ns >= UINT64_C(1000000000000))
        snprintf(out.text, sizeof out.text, "%" PRIu64 " s", ns / 1000000000);
    return out;
}

double remat_percent_longer(uint64_t ns, uint64_t than_ns, int digits)
{
    assert(digits >= 0);
    double percent = than_ns ? 100 * ((double)ns / (double)than_ns - 1) : 0, half = 0.5;
    while (digits-- > 0)
        half /= 10;
    return percent > -half && percent < half ? 0 : percent;
}

struct remat_throughput remat_throughput_of(uint64_t tokens, uint32_t ranks, uint64_t model_ns,
                                            uint64_t step_ns)
{
    assert(ranks > 0);
    struct remat_throughput out = {0};
    if (step_ns == 0)
        return out;
    out.tokens_per_s = (double)tokens * 1e9 / (double)step_ns;
    out.rank_tokens_per_s = out.tokens_per_s / ranks;
    out.mfu = (double)model_ns / (double)step_ns;
    return out;
}

struct remat_unit_text remat_rate_text(double rate)
{
    struct remat_unit_text out;
    char digits[REMAT_UNIT_TEXT_BYTES / 2];
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

struct remat_unit_text remat_throughput_text(const struct remat_throughput *throughput,
                                             uint32_t ranks, const char *rank)
{
    struct remat_unit_text out = {""};
    size_t length = 0;
    if (throughput->tokens_per_s > 0)
        length += (size_t)snprintf(out.text, sizeof out.text, "%s tokens/s",
                                   remat_rate_text(throughput->tokens_per_s).text);
    if (length && ranks > 1)
        length += (size_t)snprintf(out.text + length, sizeof out.text - length, ", %s a %s",
                                   remat_rate_text(throughput->rank_tokens_per_s).text, rank);
    if (throughput->mfu > 0 && length < sizeof out.text)
        snprintf(out.text + length, sizeof out.text - length, "%sMFU %.1f %%", length ? "; " : "",
                 100 * throughput->mfu);
    return out;
}

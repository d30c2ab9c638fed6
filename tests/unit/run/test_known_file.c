/* SPDX-License-Identifier: Apache-2.0 */
/* How probable it is that a good file of uint16 ids is taken for another format or for a text: for
 * each row, the ids of a vocabulary that its pattern accepts are counted place by place, with the
 * nibbles taken apart here once more. */
#include "check.h"
#include "known_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IDS = KNOWN_FILE_BYTES / 2 };

/* Masks and values of all bytes that a row fixes. */
static uint32_t read_pattern(const struct known_file *known, unsigned char *mask,
                             unsigned char *value)
{
    uint32_t bits = 0, nibble = 0;
    memset(mask, 0, KNOWN_FILE_BYTES);
    memset(value, 0, KNOWN_FILE_BYTES);
    for (const char *c = known->pattern; *c; c++) {
        char text[2] = {*c, 0}, *end;
        if (*c == ' ')
            continue;
        uint32_t at = known->offset + nibble / 2, shift = nibble % 2 ? 0 : 4;
        MUST(at < KNOWN_FILE_BYTES);
        nibble++;
        if (*c == '?')
            continue;
        mask[at] |= (unsigned char)(15u << shift);
        value[at] |= (unsigned char)(strtoul(text, &end, 16) << shift);
        CHECK(*end == 0, "%s: %s", known->name, known->pattern);
        bits += 4;
    }
    CHECK(nibble % 2 == 0, "%s: %s", known->name, known->pattern);
    return bits;
}

static double probability(const unsigned char *mask, const unsigned char *value,
                          uint32_t vocabulary)
{
    double product = 1;
    for (uint32_t i = 0; i < IDS; i++) {
        uint32_t m = mask[2 * i] | (uint32_t)mask[2 * i + 1] << 8;
        uint32_t v = value[2 * i] | (uint32_t)value[2 * i + 1] << 8, count = 0;
        for (uint32_t id = 0; id < vocabulary && m; id++)
            count += (id & m) == v;
        product *= m ? (double)count / vocabulary : 1;
    }
    return product;
}

static void test_rows(void)
{
    for (uint32_t vocabulary = 1 << 16; vocabulary; vocabulary -= 1 << 11) {
        double total = 0;
        for (size_t k = 0; k < known_file_count; k++) {
            unsigned char mask[KNOWN_FILE_BYTES], value[KNOWN_FILE_BYTES];
            uint32_t bits = read_pattern(&known_files[k], mask, value);
            CHECK(bits >= 32, "%s fixes %u bits", known_files[k].name, bits);
            CHECK(known_file_of(value, sizeof value) == &known_files[k], "%s is not found",
                  known_files[k].name);
            total += probability(mask, value, vocabulary);
        }
        CHECK(total < 0x1p-28, "vocabulary %u: 2^%.1f", vocabulary, log2(total));
    }
}

/* No byte after the given ones is read. */
static void test_short(void)
{
    for (size_t k = 0; k < known_file_count; k++) {
        unsigned char mask[KNOWN_FILE_BYTES], value[KNOWN_FILE_BYTES];
        uint32_t bytes = KNOWN_FILE_BYTES;
        read_pattern(&known_files[k], mask, value);
        while (bytes && !mask[bytes - 1])
            bytes--;
        unsigned char *exact = malloc(bytes);
        MUST(exact);
        memcpy(exact, value, bytes);
        CHECK(known_file_of(exact, bytes) == &known_files[k], "%s", known_files[k].name);
        CHECK(known_file_of(exact, bytes - 1) != &known_files[k], "%s, cut", known_files[k].name);
        free(exact);
    }
    CHECK(!known_file_of(NULL, 0), "nothing is something");
}

/* The worst share of ids, over all vocabularies, that are two bytes of a text. */
static double worst_share(bool (*is)(const unsigned char *, uint64_t))
{
    double worst = 0;
    uint32_t count = 0;
    for (uint32_t id = 0; id < 1 << 16; id++) {
        const unsigned char bytes[] = {(unsigned char)id, (unsigned char)(id >> 8)};
        count += is(bytes, 2);
        double share = (double)count / (id + 1);
        worst = share > worst ? share : worst;
    }
    return worst;
}

static void test_texts(void)
{
    CHECK(64 * log2(worst_share(is_ascii)) < -100, "%g", worst_share(is_ascii));
    CHECK(256 * log2(worst_share(is_text)) < -88, "%g", worst_share(is_text));
    CHECK(!is_ascii((const unsigned char *)"a\x80", 2) &&
              is_text((const unsigned char *)"a\xc3\xa9\r\n", 5),
          "UTF-8");
}

int main(void)
{
    test_rows();
    test_short();
    test_texts();
    return check_exit();
}

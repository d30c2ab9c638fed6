/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the parser of graph text: what is being read, and what its files share. */
#ifndef REMAT_GRAPH_PARSE_H
#define REMAT_GRAPH_PARSE_H

#include "graph.h"
#include "graph_lex.h"

#define ATTRIBUTES_MAX 16
#define INTS_MAX       64 /* of a list */

struct names { /* value ids by name and instance: open addressing, REMAT_NONE is empty */
    uint32_t *slots;
    size_t capacity, count;
};

struct instances { /* by value id */
    uint32_t *items;
    size_t count, capacity;
};

struct values {
    remat_value *items;
    size_t count, capacity;
};

struct updates {
    struct remat_update *items;
    size_t count, capacity;
};

struct parser {
    remat_context *ctx;
    struct remat_arena *arena;
    struct remat_graph *graph;
    struct remat_lexer lexer;
    struct names names;
    struct instances instances;
    struct values outputs;
    struct updates updates;
};

struct attributes { /* of the node being read */
    struct remat_attribute items[ATTRIBUTES_MAX];
    int64_t ints[ATTRIBUTES_MAX][INTS_MAX];
    uint32_t count;
};

struct result { /* of the node being read */
    struct remat_value_info info;
    uint32_t instance;
};

/* Adds a value under its name. */
remat_status remat_parser_define(struct parser *p, const struct result *result, remat_value *out);
/* Reads the use of a value; `what` was expected. */
remat_status remat_parse_use(struct parser *p, const char *what, remat_value *out);
/* Reads the name of a value that is being defined. */
remat_status remat_parse_name(struct parser *p, struct result *result);
/* Reads a number or the name of a symbol. */
remat_status remat_parse_int(struct parser *p, int64_t min, const char *what, int64_t *out);
/* Reads ": DTYPE[DIM, ...]". */
remat_status remat_parse_type(struct parser *p, struct remat_value_info *info);
/* Reads "pin save" or "pin recompute", if it is there. */
remat_status remat_parse_pin(struct parser *p, struct remat_value_info *info);
/* Which of `count` words the token is; it is not read. */
bool remat_parse_word(const struct remat_lexer *lexer, const char *(*word)(uint32_t),
                      uint32_t count, uint8_t *out);
/* Reads "{KEY = VALUE, ...}", if it is there. */
remat_status remat_parse_attributes(struct parser *p, struct attributes *out);
/* Reads a node, whose results come first, and adds it. */
remat_status remat_parse_node(struct parser *p);

#endif

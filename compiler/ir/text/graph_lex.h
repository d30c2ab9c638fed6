/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens and words of the graph's text form. */
#ifndef REMAT_GRAPH_LEX_H
#define REMAT_GRAPH_LEX_H

#include "program.h"
#include "unwind.h"

enum remat_token_kind {
    REMAT_TOKEN_END,
    REMAT_TOKEN_NEWLINE, /* one for any number of line ends, blanks and comments */
    REMAT_TOKEN_WORD,    /* graph, f32, layer_norm */
    REMAT_TOKEN_NUMBER,  /* 12, -1, 1e-05, inf */
    REMAT_TOKEN_STRING,  /* "...", unescaped */
    REMAT_TOKEN_VALUE,   /* %name, %"a name", %name@2 */
    REMAT_TOKEN_MARK,    /* one of = : , { } [ ] ( ) */
    REMAT_TOKEN_BAD,     /* none: remat_lex_expected gives the message that says why */
};

struct remat_token {
    enum remat_token_kind kind;
    uint32_t line;
    const char *text; /* in the source; STRING and VALUE: the name, in the arena */
    size_t length;
    uint32_t instance; /* VALUE: what follows '@', else 0 */
};

struct remat_lexer {
    remat_context *ctx;
    struct remat_arena *arena;
    const char *file; /* starts every message */
    const char *at, *end;
    uint32_t line;
    struct remat_token token; /* the current one */
};

/* `file:line: ...` of the current token. */
#define REMAT_LEX_ERROR(lexer, format, ...)                                                        \
    remat_error((lexer)->ctx, REMAT_ERROR_INVALID, "%s:%u: " format, (lexer)->file,                \
                (lexer)->token.line, __VA_ARGS__)

/* A role in one word, REMAT_ROLE_COUNT of them. */
const char *remat_lex_role(uint32_t role);

/* Moves to the next token; the first call reads the first one. */
void remat_lex(struct remat_lexer *lexer);

/* True if the current token is this WORD, NUMBER or MARK. */
bool remat_lex_is(const struct remat_lexer *lexer, const char *text);
/* Moves past the token if it is `text`. */
bool remat_lex_accept(struct remat_lexer *lexer, const char *text);
/* The same, but fails otherwise; `text` has a few characters. */
remat_status remat_lex_expect(struct remat_lexer *lexer, const char *text);
/* Fails with "expected WHAT, found TOKEN". */
remat_status remat_lex_expected(const struct remat_lexer *lexer, const char *what);

/* Reads a number and moves past it; a word such as inf or nan is one where a float is wanted. */
remat_status remat_lex_int(struct remat_lexer *lexer, int64_t min, int64_t max, const char *what,
                           int64_t *out);
remat_status remat_lex_float(struct remat_lexer *lexer, const char *what, double *out);
/* Whether the current token is written as a float: with a point, an exponent, inf or nan. */
bool remat_lex_is_float(const struct remat_lexer *lexer);

#endif

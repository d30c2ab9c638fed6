/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_lex.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define NUMBER_BYTES 64

const char *remat_lex_role(uint32_t role)
{
    return role == REMAT_ROLE_OPTIMIZER_STATE ? "state"
           : role == REMAT_ROLE_STEP_STATE    ? "step_state"
                                              : remat_role_name(role);
}

static bool is_word(char c)
{
    return remat_is_letter(c) || remat_is_digit(c);
}

static bool is_name(char c)
{
    return is_word(c) || c == '.' || c == '-' || c == '/';
}

static bool is_number(char c)
{
    return is_word(c) || c == '.' || c == '-' || c == '+';
}

static int hex_digit(char c)
{
    if (remat_is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Skips blanks, comments and line ends; true when there was a line end. */
static bool skip(struct remat_lexer *lexer)
{
    bool newline = false;
    while (lexer->at < lexer->end) {
        char c = *lexer->at;
        if (c == '#') {
            while (lexer->at < lexer->end && *lexer->at != '\n')
                lexer->at++;
        } else if (c == '\n') {
            newline = true;
            lexer->line++;
            lexer->at++;
        } else if (c == ' ' || c == '\t' || c == '\r') {
            lexer->at++;
        } else {
            break;
        }
    }
    return newline;
}

static void lex_while(struct remat_lexer *lexer, enum remat_token_kind kind, bool (*belongs)(char))
{
    lexer->token.kind = kind;
    lexer->token.text = lexer->at;
    while (lexer->at < lexer->end && belongs(*lexer->at))
        lexer->at++;
    lexer->token.length = (size_t)(lexer->at - lexer->token.text);
}

static remat_status lex_escape(struct remat_lexer *lexer, char *out)
{
    size_t left = (size_t)(lexer->end - lexer->at);
    if (left >= 1 && (lexer->at[0] == '"' || lexer->at[0] == '\\')) {
        *out = *lexer->at++;
        return REMAT_OK;
    }
    if (left >= 3 && lexer->at[0] == 'x' && hex_digit(lexer->at[1]) >= 0 &&
        hex_digit(lexer->at[2]) >= 0) {
        *out = (char)(hex_digit(lexer->at[1]) * 16 + hex_digit(lexer->at[2]));
        lexer->at += 3;
        if (*out)
            return REMAT_OK;
    }
    return REMAT_LEX_ERROR(lexer, "bad escape in a string; accepted: %s",
                           "\\\", \\\\, \\x01 to \\xff");
}

/* After the opening quote. */
static remat_status lex_string(struct remat_lexer *lexer)
{
    const char *close = lexer->at;
    while (close < lexer->end && *close != '"' && *close != '\n')
        close += *close == '\\' && close + 1 < lexer->end ? 2 : 1;
    if (close >= lexer->end || *close != '"')
        return REMAT_LEX_ERROR(lexer, "string without a closing %c", '"');

    char *text;
    REMAT_NEW(lexer->arena, text, (size_t)(close - lexer->at) + 1);
    size_t length = 0;
    while (lexer->at < close) {
        char c = *lexer->at++;
        if ((unsigned char)c < 0x20)
            return REMAT_LEX_ERROR(lexer, "control byte 0x%02x in a string; write \\x%02x",
                                   (unsigned char)c, (unsigned char)c);
        if (c == '\\')
            REMAT_CHECK(lex_escape(lexer, &c));
        text[length++] = c;
    }
    lexer->at = close + 1;
    lexer->token.kind = REMAT_TOKEN_STRING;
    lexer->token.text = text;
    lexer->token.length = length;
    return REMAT_OK;
}

static remat_status lex_instance(struct remat_lexer *lexer)
{
    uint64_t instance = 0;
    while (lexer->at < lexer->end && remat_is_digit(*lexer->at) && instance <= INT32_MAX)
        instance = instance * 10 + (uint64_t)(*lexer->at++ - '0');
    if (instance == 0 || instance > INT32_MAX)
        return REMAT_LEX_ERROR(lexer, "the instance after '@' must be 1 to %d", INT32_MAX);
    lexer->token.instance = (uint32_t)instance;
    return REMAT_OK;
}

/* After the '%'. */
static remat_status lex_value(struct remat_lexer *lexer)
{
    if (lexer->at < lexer->end && *lexer->at == '"') {
        lexer->at++;
        REMAT_CHECK(lex_string(lexer));
    } else {
        lex_while(lexer, REMAT_TOKEN_VALUE, is_name);
        lexer->token.text = remat_string(lexer->arena, lexer->token.text, lexer->token.length);
    }
    lexer->token.kind = REMAT_TOKEN_VALUE;
    if (lexer->token.length == 0)
        return REMAT_LEX_ERROR(lexer, "no name after '%c'", '%');
    if (lexer->at < lexer->end && *lexer->at == '@') {
        lexer->at++;
        REMAT_CHECK(lex_instance(lexer));
    }
    return REMAT_OK;
}

static remat_status lex(struct remat_lexer *lexer)
{
    uint32_t line = lexer->line;
    bool newline = skip(lexer);
    lexer->token = (struct remat_token){.line = newline ? line : lexer->line};
    if (newline) {
        lexer->token.kind = REMAT_TOKEN_NEWLINE;
        return REMAT_OK;
    }
    if (lexer->at == lexer->end)
        return REMAT_OK;

    char c = *lexer->at;
    if (remat_is_digit(c) || c == '-') {
        lex_while(lexer, REMAT_TOKEN_NUMBER, is_number);
    } else if (is_word(c)) {
        lex_while(lexer, REMAT_TOKEN_WORD, is_word);
    } else if (c == '"') {
        lexer->at++;
        REMAT_CHECK(lex_string(lexer));
    } else if (c == '%') {
        lexer->at++;
        REMAT_CHECK(lex_value(lexer));
    } else if (c && strchr("=:,{}[]()", c)) {
        lexer->token.kind = REMAT_TOKEN_MARK;
        lexer->token.text = lexer->at++;
        lexer->token.length = 1;
    } else {
        return REMAT_LEX_ERROR(lexer, "unexpected byte 0x%02x", (unsigned char)c);
    }
    return REMAT_OK;
}

void remat_lex(struct remat_lexer *lexer)
{
    if (lex(lexer) != REMAT_OK)
        lexer->token.kind = REMAT_TOKEN_BAD;
}

bool remat_lex_is(const struct remat_lexer *lexer, const char *text)
{
    const struct remat_token *token = &lexer->token;
    return (token->kind == REMAT_TOKEN_WORD || token->kind == REMAT_TOKEN_NUMBER ||
            token->kind == REMAT_TOKEN_MARK) &&
           token->length == strlen(text) && memcmp(token->text, text, token->length) == 0;
}

bool remat_lex_accept(struct remat_lexer *lexer, const char *text)
{
    bool accepted = remat_lex_is(lexer, text);
    if (accepted)
        remat_lex(lexer);
    return accepted;
}

remat_status remat_lex_expected(const struct remat_lexer *lexer, const char *what)
{
    const struct remat_token *token = &lexer->token;
    int shown = token->length > 60 ? 60 : (int)token->length;
    switch (token->kind) {
    case REMAT_TOKEN_BAD:
        return REMAT_ERROR_INVALID;
    case REMAT_TOKEN_END:
        return REMAT_LEX_ERROR(lexer, "expected %s, found the end of the text", what);
    case REMAT_TOKEN_NEWLINE:
        return REMAT_LEX_ERROR(lexer, "expected %s, found the end of the line", what);
    case REMAT_TOKEN_VALUE:
        return REMAT_LEX_ERROR(lexer, "expected %s, found %%%.*s", what, shown, token->text);
    case REMAT_TOKEN_STRING:
        return REMAT_LEX_ERROR(lexer, "expected %s, found \"%.*s\"", what, shown, token->text);
    default:
        return REMAT_LEX_ERROR(lexer, "expected %s, found '%.*s'", what, shown, token->text);
    }
    return REMAT_OK;
}

remat_status remat_lex_expect(struct remat_lexer *lexer, const char *text)
{
    char what[16];
    snprintf(what, sizeof what, "'%s'", text);
    return remat_lex_accept(lexer, text) ? REMAT_OK : remat_lex_expected(lexer, what);
}

enum number { NO_NUMBER, INTEGER, FLOAT };

/* How the token is written, and its text for strtoll and strtod. */
static enum number number_of(const struct remat_token *token, char out[NUMBER_BYTES])
{
    if ((token->kind != REMAT_TOKEN_NUMBER && token->kind != REMAT_TOKEN_WORD) ||
        token->length >= NUMBER_BYTES)
        return NO_NUMBER;
    memcpy(out, token->text, token->length);
    out[token->length] = 0;
    if (strcmp(out, "inf") == 0 || strcmp(out, "-inf") == 0 || strcmp(out, "nan") == 0)
        return FLOAT;
    if (token->kind == REMAT_TOKEN_WORD || out[strspn(out, "0123456789+-.eE")])
        return NO_NUMBER;
    return out[strspn(out, "0123456789-")] ? FLOAT : INTEGER;
}

remat_status remat_lex_int(struct remat_lexer *lexer, int64_t min, int64_t max, const char *what,
                           int64_t *out)
{
    char text[NUMBER_BYTES], *rest = NULL;
    errno = 0;
    if (number_of(&lexer->token, text) == INTEGER)
        *out = strtoll(text, &rest, 10);
    if (!rest || *rest)
        return remat_lex_expected(lexer, what);
    if (errno == ERANGE || *out < min || *out > max)
        return REMAT_LEX_ERROR(lexer, "%s: %s is out of range; accepted: %lld to %lld", what, text,
                               (long long)min, (long long)max);
    remat_lex(lexer);
    return REMAT_OK;
}

bool remat_lex_is_float(const struct remat_lexer *lexer)
{
    char text[NUMBER_BYTES];
    return number_of(&lexer->token, text) == FLOAT;
}

remat_status remat_lex_float(struct remat_lexer *lexer, const char *what, double *out)
{
    char text[NUMBER_BYTES], *rest = NULL;
    if (number_of(&lexer->token, text) != NO_NUMBER)
        *out = strtod(text, &rest);
    if (!rest || *rest)
        return remat_lex_expected(lexer, what);
    if (isinf(*out) && !strchr(text, 'i'))
        return REMAT_LEX_ERROR(lexer, "%s: %s is out of range of a double", what, text);
    remat_lex(lexer);
    return REMAT_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The text that all shapes share: values, loads and stores. Register i of the program is r<i>, or
 * x<i>[e] where it is loaded for all elements of a step, or k<i>[step][e] where it is kept. */
#include "body.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>

static const char *const expressions[REMAT_INSTRUCTION_COUNT] = {
#define INSTRUCTION(name, arity, flops, text) text,
#include "instructions.def"
#undef INSTRUCTION
};

void cuda_text(struct cuda_source *s, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    s->out->failed |= length < 0 || (size_t)length >= sizeof line;
    if (line[0] == '}')
        s->indent--;
    remat_text_append(s->out, "%*s%s\n", line[0] ? (int)(4 * (s->indent + s->hanging)) : 0, "",
                      line);
    char last = line[length > 0 ? length - 1 : 0];
    s->indent += last == '{';
    s->hanging = last == ')' ? s->hanging + 1 : 0; /* "for (...)" and "if (...)" of one line */
}

/* --- names --- */

static bool is_vector(const struct cuda_source *s, const struct cuda_node *node)
{
    if (node->variation == CUDA_BY_COLUMN)
        return node->place != CUDA_NONE && !s->totals;
    return node->variation == CUDA_BY_ELEMENT && (cuda_is_load(node) || cuda_is_random(node));
}

struct cuda_name cuda_name(const struct cuda_source *s, uint16_t reg)
{
    assert(reg < s->count);
    const struct cuda_node *node = &s->nodes[reg];
    struct cuda_name name;
    if (node->kept && node->ready)
        snprintf(name.text, sizeof name.text, "k%u[step][e]", reg);
    else if (!is_vector(s, node))
        snprintf(name.text, sizeof name.text, "r%u", reg);
    else
        snprintf(name.text, sizeof name.text, "x%u%s[e]", reg, s->slots > 1 ? "[u]" : "");
    return name;
}

static struct cuda_name constant(float value)
{
    struct cuda_name name;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (!isnormal(value) && value != 0) {
        snprintf(name.text, sizeof name.text, "float_of_bits(0x%08xu)", bits);
        return name;
    }
    snprintf(name.text, sizeof name.text - 3, "%.9g", (double)value);
    strcat(name.text, strpbrk(name.text, ".e") ? "f" : ".0f");
    return name;
}

/* --- addresses --- */

struct address {
    char text[128];
};

/* The address of the element at `column`, an expression; NULL: of the row's first element. */
static struct address address_of(const struct cuda_source *s, uint16_t access, const char *column)
{
    const struct cuda_access *a = &s->accesses[access];
    struct address address;
    char offset[24] = "", along[80] = "";
    if (a->by_row)
        snprintf(offset, sizeof offset, "o%u", access);
    if (column && a->column_stride == 1)
        snprintf(along, sizeof along, offset[0] ? "%s" : "(u64)(%s)", column);
    else if (column && a->column_stride)
        snprintf(along, sizeof along, "(u64)(%s) * %lld", column, (long long)a->column_stride);
    if (!offset[0] && !along[0])
        snprintf(address.text, sizeof address.text, "p%u", a->operand);
    else
        snprintf(address.text, sizeof address.text, "p%u + (%s%s%s) * %u", a->operand, offset,
                 offset[0] && along[0] ? " + " : "", along, a->bytes);
    return address;
}

static bool uses_operand(const struct cuda_source *s, uint32_t operand)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->nodes[i].live && s->nodes[i].access != CUDA_NONE &&
            s->accesses[s->nodes[i].access].operand == operand)
            return true;
    return false;
}

static const char *dtype_of(const struct cuda_source *s, const struct cuda_node *node)
{
    return cuda_dtype_name(s->accesses[node->access].dtype);
}

void cuda_write_head(struct cuda_source *s)
{
    for (uint32_t o = 0; o < s->operand_count; o++)
        if (uses_operand(s, o))
            cuda_text(s, "u8 *const p%u = (u8 *)arguments.word[%s%u];", o,
                      s->shape == CUDA_TENSORS && !cuda_is_shared(s, o) ? "tensor + " : "",
                      cuda_word_of(s, o));
    for (uint32_t i = 0; i < s->count; i++)
        if (s->nodes[i].live && cuda_is_random(&s->nodes[i]))
            cuda_text(s,
                      "const struct random_state s%u = read_random_state(p%u, arguments.word[0] * "
                      "arguments.word[1], (u32)arguments.word[%u]);",
                      i, s->accesses[s->nodes[i].access].operand,
                      2 + s->operand_count + s->nodes[i].site);
    cuda_write_values(s, CUDA_UNIFORM, 0, NULL);
}

/* The row's index along each axis, by division, and what it contributes. */
void cuda_write_offsets(struct cuda_source *s)
{
    if (s->row_axes > 1)
        cuda_text(s, "u32 q = row;");
    for (uint32_t k = s->row_axes; k-- > 1;) {
        cuda_text(s, "const u64 i%u = q %% %lldu;", k, (long long)s->axes[k]);
        cuda_text(s, "q /= %lldu;", (long long)s->axes[k]);
    }
    if (s->row_axes > 0)
        cuda_text(s, "const u64 i0 = %s;", s->row_axes > 1 ? "q" : "row");
    for (uint32_t i = 0; i < s->count; i++) {
        uint16_t a = s->nodes[i].access;
        if (a == CUDA_NONE || !s->nodes[i].live || !s->accesses[a].by_row)
            continue;
        char sum[256] = "";
        for (uint32_t k = 0; k < s->row_axes; k++)
            if (s->accesses[a].strides[k])
                snprintf(sum + strlen(sum), sizeof sum - strlen(sum), "%si%u * %lld",
                         sum[0] ? " + " : "", k, (long long)s->accesses[a].strides[k]);
        cuda_text(s, "const u64 o%u = %s;", a, sum);
    }
}

/* --- values --- */

static void write_expression(struct cuda_source *s, uint32_t i)
{
    const struct cuda_node *node = &s->nodes[i];
    char text[256];
    size_t length = 0;
    for (const char *c = expressions[node->opcode]; *c && length < sizeof text - 40; c++)
        if (*c == '$')
            length += (size_t)snprintf(text + length, sizeof text - length, "%s",
                                       cuda_name(s, node->args[*++c - 'a']).text);
        else
            text[length++] = *c;
    text[length] = 0;
    cuda_text(s, "const float r%u = %s;", i, text);
}

static void write_value(struct cuda_source *s, uint32_t i, const char *condition)
{
    const struct cuda_node *node = &s->nodes[i];
    if (node->opcode == REMAT_INSTRUCTION_constant) {
        cuda_text(s, "const float r%u = %s;", i, constant(node->immediate).text);
    } else if (!cuda_is_load(node)) {
        write_expression(s, i);
    } else {
        cuda_text(s, "const float r%u = %s%sload_%s(%s)%s;", i, condition ? condition : "",
                  condition ? " ? " : "", dtype_of(s, node), address_of(s, node->access, NULL).text,
                  condition ? " : 0.0f" : "");
    }
}

void cuda_write_values(struct cuda_source *s, enum cuda_variation variation, uint32_t pass,
                       const char *condition)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const struct cuda_node *node = &s->nodes[i];
        bool now = variation == CUDA_UNIFORM                              ? true
                   : variation == CUDA_BY_ROW && s->shape == CUDA_COLUMNS ? node->runs
                                                                          : node->pass == pass;
        if (node->live && now && node->variation == variation && !cuda_is_store(node) &&
            !cuda_is_reduction(node))
            write_value(s, i, condition);
    }
}

/* --- elements --- */

static struct cuda_name column_of_element(const struct cuda_source *s)
{
    struct cuda_name name;
    snprintf(name.text, sizeof name.text, s->spacing == 1 ? "column + e" : "column + e * %u",
             s->spacing);
    return name;
}

/* Elements of a vector that exist. */
static struct cuda_name count_of(const struct cuda_source *s)
{
    struct cuda_name name;
    snprintf(name.text, sizeof name.text, s->tail ? "count" : "%u", s->width);
    return name;
}

static void write_random(struct cuda_source *s, uint32_t i, const char *slot)
{
    if (s->width > 1)
        cuda_text(s, "random_vector(x%u%s, &s%u, (u64)row * columns + column, %u, %d);", i, slot, i,
                  s->width, s->columns % (s->width < 4 ? s->width : 4) == 0);
    else
        cuda_text(s,
                  "UNROLL for (u32 e = 0; e < %u; e++) x%u%s[e] = random_element(&s%u, (u64)row * "
                  "columns + %s);",
                  s->elements, i, slot, i, column_of_element(s).text);
}

static void write_load(struct cuda_source *s, uint32_t i, const char *slot)
{
    const struct cuda_node *node = &s->nodes[i];
    if (s->accesses[node->access].column_stride == 1 && s->width > 1) {
        cuda_text(s, "load_vector_%s(x%u%s, %s, %u, %s);", dtype_of(s, node), i, slot,
                  address_of(s, node->access, "column").text, s->width, count_of(s).text);
        return;
    }
    struct cuda_name column = column_of_element(s);
    cuda_text(s, "UNROLL for (u32 e = 0; e < %u; e++)", s->elements);
    cuda_text(s, "x%u%s[e] = %s%sload_%s(%s)%s;", i, slot, s->tail ? column.text : "",
              s->tail ? " < end ? " : "", dtype_of(s, node),
              address_of(s, node->access, column.text).text, s->tail ? " : 0.0f" : "");
}

static bool is_read(const struct cuda_source *s, uint32_t reg)
{
    for (uint32_t i = reg; i < s->count; i++)
        for (uint32_t k = 0; s->nodes[i].runs && k < cuda_arity(&s->nodes[i]); k++)
            if (s->nodes[i].args[k] == reg)
                return true;
    return false;
}

void cuda_write_loads(struct cuda_source *s)
{
    const char *slot = s->slots > 1 ? "[u]" : "";
    for (uint32_t i = 0; i < s->count; i++) {
        const struct cuda_node *node = &s->nodes[i];
        if (!node->runs || node->variation != CUDA_BY_ELEMENT || !is_vector(s, node))
            continue;
        if (s->slots == 1)
            cuda_text(s, "float x%u[%u];", i, s->elements);
        if (cuda_is_random(node))
            write_random(s, i, slot);
        else
            write_load(s, i, slot);
    }
    for (uint32_t i = 0; i < s->count; i++) {
        const struct cuda_node *node = &s->nodes[i];
        if (node->variation != CUDA_BY_COLUMN || !is_read(s, i))
            continue;
        cuda_text(s, "float x%u[%u];", i, s->elements);
        cuda_text(s, "UNROLL for (u32 e = 0; e < %u; e++)", s->elements);
        cuda_text(s, "x%u[e] = %sload_f32(totals + (%uull * columns + column + e) * 4)%s;", i,
                  s->tail ? "column + e < end ? " : "", node->place, s->tail ? " : 0.0f" : "");
    }
}

static void write_element_store(struct cuda_source *s, uint32_t i)
{
    const struct cuda_node *node = &s->nodes[i];
    if (cuda_is_flag(node)) {
        cuda_text(s, "if (f%u) set_flag(p%u);", i, s->accesses[node->access].operand);
        return;
    }
    if (s->accesses[node->access].column_stride == 1 && s->width > 1) {
        cuda_text(s, "store_vector_%s(%s, y%u, %u, %s);", dtype_of(s, node),
                  address_of(s, node->access, "column").text, i, s->width, count_of(s).text);
        return;
    }
    struct cuda_name column = column_of_element(s);
    cuda_text(s, "UNROLL for (u32 e = 0; e < %u; e++)", s->elements);
    if (s->tail)
        cuda_text(s, "if (%s < end)", column.text);
    cuda_text(s, "store_%s(%s, y%u[e]);", dtype_of(s, node),
              address_of(s, node->access, column.text).text, i);
}

/* Results that the elements put by until all of them are computed. */
static void declare_store(struct cuda_source *s, uint32_t i)
{
    if (cuda_is_flag(&s->nodes[i]))
        cuda_text(s, "u32 f%u = 0;", i);
    else
        cuda_text(s, "float y%u[%u];", i, s->elements);
}

void cuda_write_elements(struct cuda_source *s, cuda_reduce *reduce)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->nodes[i].runs && cuda_is_store(&s->nodes[i]) && s->nodes[i].by_element)
            declare_store(s, i);
    cuda_text(s, "UNROLL for (u32 e = 0; e < %u; e++) {", s->elements);
    for (uint32_t i = 0; i < s->count; i++) {
        const struct cuda_node *node = &s->nodes[i];
        if (!node->runs || !node->by_element)
            continue;
        if (cuda_is_flag(node))
            cuda_text(s, "f%u |= %s%snot_finite(%s);", i, s->tail ? column_of_element(s).text : "",
                      s->tail ? " < end && " : "", cuda_name(s, node->args[0]).text);
        else if (cuda_is_store(node))
            cuda_text(s, "y%u[e] = %s;", i, cuda_name(s, node->args[0]).text);
        else if (cuda_is_reduction(node))
            reduce(s, i);
        else if (node->opcode == REMAT_INSTRUCTION_column)
            cuda_text(s, "const float r%u = (float)(%s);", i, column_of_element(s).text);
        else if (!is_vector(s, node))
            write_expression(s, i);
        if (node->kept && !node->ready)
            cuda_text(s, "k%u[step][e] = %s;", i, cuda_name(s, (uint16_t)i).text);
    }
    cuda_text(s, "}");
    for (uint32_t i = 0; i < s->count; i++)
        if (s->nodes[i].runs && cuda_is_store(&s->nodes[i]) && s->nodes[i].by_element)
            write_element_store(s, i);
}

uint32_t cuda_tile_floats(const struct cuda_source *s)
{
    return CUDA_THREADS * s->width;
}

uint32_t cuda_tiles_of(const struct cuda_source *s, const struct cuda_node *node)
{
    return node->order * 2 * cuda_tile_floats(s);
}

void cuda_reduce_to_tile(struct cuda_source *s, uint32_t i)
{
    cuda_text(s, "shared_write(shared, %u + buffer + thread * %u + e, %s);",
              cuda_tiles_of(s, &s->nodes[i]), s->width, cuda_name(s, s->nodes[i].args[0]).text);
}

/* Stores a value by row or by column. */
static void write_single_store(struct cuda_source *s, const struct cuda_node *node,
                               const char *column)
{
    struct cuda_name name = cuda_name(s, node->args[0]);
    if (cuda_is_flag(node))
        cuda_text(s, "if (not_finite(%s)) set_flag(p%u);", name.text,
                  s->accesses[node->access].operand);
    else
        cuda_text(s, "store_%s(%s, %s);", dtype_of(s, node),
                  address_of(s, node->access, column).text, name.text);
}

void cuda_write_stores_by(struct cuda_source *s, enum remat_register_class class, uint32_t pass)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const struct cuda_node *node = &s->nodes[i];
        if (cuda_is_store(node) && s->nodes[node->args[0]].class == class &&
            (class == REMAT_CLASS_ROW || node->pass == pass))
            write_single_store(s, node, class == REMAT_CLASS_COLUMN ? "column" : NULL);
    }
}

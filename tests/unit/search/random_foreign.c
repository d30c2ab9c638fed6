/* SPDX-License-Identifier: Apache-2.0 */
#include "random_graph.h"

#include "graph_text.h"

enum { FOREIGN_MAX = 64 };

struct foreign {
    struct random *random;
    struct remat_text text;
    uint32_t count;
    int width;
    bool whole[FOREIGN_MAX];  /* of %v0, %v1, ...: of the graph's width, not of 1 */
    bool read[FOREIGN_MAX];   /* by the forward pass, all of which leads to the loss */
    bool summed[FOREIGN_MAX]; /* of %d0, %d1, ... */
};

static void begin_foreign(struct foreign *f, bool whole)
{
    static const char *const types[] = {"f32", "bf16", "b8"};
    const char *type = whole ? types[random_draw(f->random, 3)] : "f32";
    remat_text_append(&f->text, "%%v%u : %s[128,%d]", f->count, type, whole ? f->width : 1);
    f->whole[f->count++] = whole;
}

/* The last value half of the time. */
static uint32_t draw_foreign(struct foreign *f)
{
    return random_draw(f->random, 2) ? f->count - 1 : random_draw(f->random, f->count);
}

static uint32_t draw_whole(struct foreign *f)
{
    uint32_t v = draw_foreign(f);
    while (!f->whole[v])
        v--; /* %v0 is */
    return v;
}

static void write_forward(struct foreign *f)
{
    uint32_t kind = random_draw(f->random, 10), x = draw_whole(f), y = draw_foreign(f);
    bool rows = kind == 2 && !f->whole[y];
    f->read[x] |= !rows;
    f->read[y] |= rows || kind == 2 || kind > 5;
    if (kind < 2 && f->whole[f->count - 1]) {
        begin_foreign(f, false);
        remat_text_append(&f->text, " = foreign_row_reduce %%v%u phase forward\n", x);
    } else if (rows) {
        begin_foreign(f, false);
        remat_text_append(&f->text, " = foreign_pointwise %%v%u phase forward\n", y);
    } else if (kind > 2 && kind < 5) {
        begin_foreign(f, true);
        remat_text_append(&f->text, " = foreign_opaque %%v%u %%w { flops = %u.0 } phase forward\n",
                          x, 1u << random_draw(f->random, 24));
    } else if (kind == 5) {
        remat_text_append(&f->text,
                          "%%v%u.in : f32[128,%d] = foreign_pointwise %%v%u phase forward\n"
                          "%%v%u.flat : f32[%d] = foreign_view %%v%u.in { strides = [1] } phase "
                          "forward\n"
                          "%%v%u.read : f32[%d] = foreign_pointwise %%v%u.flat phase forward\n"
                          "%%v%u : f32[128,%d] = foreign_view %%v%u.read { strides = [%d, 1] } "
                          "phase forward\n",
                          f->count, f->width, x, f->count, 128 * f->width, f->count, f->count,
                          128 * f->width, f->count, f->count, f->width, f->count, f->width);
        f->whole[f->count++] = true;
    } else {
        begin_foreign(f, true);
        remat_text_append(&f->text, " = foreign_pointwise %%v%u%s", x, kind == 6 ? " %b" : "");
        if (y != x)
            remat_text_append(&f->text, " %%v%u", y);
        remat_text_append(&f->text, " phase forward\n");
    }
}

static void write_loss(struct foreign *f)
{
    remat_text_append(&f->text, "%%v%u : f32[128,%d] = foreign_pointwise %%v%u", f->count, f->width,
                      f->count - 1);
    for (uint32_t v = 0; v + 1 < f->count; v++)
        if (!f->read[v] && v)
            remat_text_append(&f->text, " %%v%u", v);
    remat_text_append(&f->text,
                      " phase forward\n%%loss : f32[1,1] output = foreign_reduce %%v%u { "
                      "axes = [0, 1] } phase %s\n",
                      f->count, random_draw(f->random, 4) ? "loss" : "forward");
    f->whole[f->count++] = true;
}

static void write_backward(struct foreign *f, uint32_t k)
{
    const char *op = random_draw(f->random, 3) ? "foreign_pointwise" : "foreign_opaque";
    uint32_t x = random_draw(f->random, k + 1), y = random_draw(f->random, k + 1);
    while (!f->whole[x] && random_draw(f->random, 4)) /* rows stay in their kernels as a rule */
        x--;
    while (!f->whole[y] && random_draw(f->random, 4))
        y--;
    remat_text_append(&f->text, "%%d%u : f32[128,%d]%s = %s %%d%u", k, f->width, k ? "" : " output",
                      op, k + 1);
    if (random_draw(f->random, 4) > (f->whole[k] ? 0 : 2))
        remat_text_append(&f->text, " %%v%u", k);
    if (x != k)
        remat_text_append(&f->text, " %%v%u", x);
    if (y != k && y != x && random_draw(f->random, 2))
        remat_text_append(&f->text, " %%v%u", y);
    remat_text_append(&f->text, " phase backward\n");
    f->summed[k] = random_draw(f->random, 3) == 0;
    if (f->summed[k])
        remat_text_append(&f->text,
                          "%%s%u : f32[1,%d] output = foreign_reduce %%d%u { axes = [0] } phase "
                          "backward\n",
                          k, f->width, k);
}

remat_status random_foreign(remat_context *ctx, struct remat_arena *arena, struct random *r,
                            uint32_t nodes, struct remat_graph **out)
{
    static const int widths[] = {16, 64, 256};
    struct foreign f = {.random = r, .text = {.arena = arena}, .width = widths[random_draw(r, 3)]};
    remat_text_append(&f.text,
                      "graph \"foreign\"\ninput %%v0 : f32[128,%d]\ninput %%w : bf16[%d,%d]\n"
                      "input %%b : f32[1,%d]\n",
                      f.width, f.width, f.width, f.width);
    f.whole[f.count++] = true;
    while (f.count <= nodes && f.count + 2 < FOREIGN_MAX)
        write_forward(&f);
    write_loss(&f);
    remat_text_append(&f.text,
                      "%%d%u : f32[128,%d] = foreign_once { launches = 0.0 } phase backward\n",
                      f.count, f.width);
    for (uint32_t k = f.count; k-- > 0;)
        write_backward(&f, k);
    remat_text_append(&f.text, "output %%loss\noutput %%d0\n");
    for (uint32_t k = 0; k < f.count; k++)
        if (f.summed[k])
            remat_text_append(&f.text, "output %%s%u\n", k);
    return remat_graph_parse(ctx, "foreign", f.text.items, f.text.count, arena, out);
}

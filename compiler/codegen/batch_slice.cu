/* SPDX-License-Identifier: Apache-2.0 */
/* A part of the batch; one that there is not gives NaN, or -1. */
#ifndef REMAT_BATCH_SLICE
#define REMAT_BATCH_SLICE
/* A thread moves `unit` bytes of a part, which has `units` of them; there are `parts`. */
DEV void batch_slice(u64 item, u64 units, u64 parts, const u8 *in, const u8 *index, u8 *out, u32 unit)
{
    const u64 part = (u64)read4(index);
    const u8 *const from = in + (part * units + item) * unit;
    if (unit == 2) {
        write2(out + item * 2, part < parts ? read2(from) : 0xffffu);
        return;
    }
    u32 x[4];
    UNROLL for (u32 e = 0; e < unit / 4; e++) x[e] = 0xffffffffu;
    if (part < parts)
        read_words(x, from, unit / 4);
    write_words(out + item * unit, x, unit / 4);
}
#endif

BODY(batch_slice)
{
    batch_slice(item, arguments.word[0], arguments.word[1], in, index, out, @unit@);
}

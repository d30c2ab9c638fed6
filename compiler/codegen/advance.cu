/* SPDX-License-Identifier: Apache-2.0 */
/* The number of the next microbatch. */
#ifndef REMAT_ADVANCE
#define REMAT_ADVANCE
DEV void advance(u8 *index, double count)
{
    const i32 i = (i32)read4(index);
    write4(index, i >= 0 && i < (i32)count - 1 ? (u32)i + 1 : 0);
}
#endif

BODY(advance)
{
    advance(index, count);
}

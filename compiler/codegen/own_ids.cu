/* SPDX-License-Identifier: Apache-2.0 */
/* A thread has one id; one that is another rank's becomes 0. */

BODY(own_ids)
{
    const i64 id = (i64)(i32)read4(ids + item * 4) - (i64)(i32)read4(rank) * (i64)count;
    write4(out + item * 4, id >= 0 && id < (i64)count ? (u32)id : 0u);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A thread has one element of the part, and one number of a call of Philox. */

BODY(fill_normal_part)
{
    const u64 site = (u64)site_low | (u64)site_high << 32;
    const i32 part = @part@, ahead = @block@;
    const u64 length = (u64)run, at = item + (u64)ahead * arguments.word[0];
    const u64 index = (at / length * (u64)ranks + (u64)part) * length + at % length;
    float x[4];
    four_normals(x, arguments.word[@seed@], site, index / 4);
    float mine = x[0];
    UNROLL for (u32 e = 1; e < 4; e++) mine = index % 4 == e ? x[e] : mine;
    mine = mine * (float)deviation + (float)mean;
    mine = index < (u64)end ? mine : 0;
    mine = part < 0 || ahead < 0 ? NOT_A_NUMBER : mine;
    store_elements(DTYPE_@dtype@, out + item * dtype_bytes(DTYPE_@dtype@), &mine, 1, 1);
}

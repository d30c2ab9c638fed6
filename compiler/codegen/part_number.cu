/* SPDX-License-Identifier: Apache-2.0 */
/* The number of a rank's microbatch among those of all ranks. */

BODY(part_number)
{
    write4(out, read4(rank) * (u32)count + read4(microbatch));
}

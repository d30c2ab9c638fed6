/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of compiler/codegen/primitives.cu for a plain C compiler: emitted kernels are
 * compiled with -include primitives.h and call the emulator (emulator.h) for all that threads
 * share. */
#ifndef REMAT_PRIMITIVES
#define REMAT_PRIMITIVES

/* Without headers, which would take a fifth of the time that most kernels compile in. */
#define memcpy __builtin_memcpy
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
struct u32x2 {
    u32 x, y;
};
struct u32x4 {
    u32 x, y, z, w;
};
struct launch_arguments { /* of either kind of kernel; struct arguments of emulator.h */
    u64 word[512];
};

u32 emulator_thread_index(void);
u32 emulator_block_index(void);
void emulator_barrier(int line);
void emulator_warp_barrier(int line);
float emulator_shuffle_xor(float x, u32 mask, int line);
u32 emulator_vote(int x, int line);
float *emulator_shared(u32 floats);
void emulator_shared_access(const float *shared, u32 i, int writes);
void emulator_access(const void *p, u32 bytes, int writes);
void emulator_flag(const void *p);
float emulator_shuffle_from(float x, u32 lane, int line);
u32 emulator_tile_memory(void);
void emulator_tile_read(u32 address, void *to, u32 bytes);
void emulator_copy(u32 to, const void *from, u32 bytes, u32 read);
void emulator_end_copies(void);
void emulator_wait_copies(u32 groups);
void emulator_read_matrices(u32 *x, u32 address, int transposed, int line);
void emulator_add_product(float *sum, const u32 *x, u32 y0, u32 y1, int half, int line);

/* By address: a copy for each thread would take more time than most kernels. */
#define arguments                     (*arguments_of_launch)
#define KERNEL(name, ...)             void name(const struct launch_arguments *arguments_of_launch)
#define TENSORS_KERNEL(name, threads) KERNEL(name, threads)
#define DEV                           static inline __attribute__((unused))
#define UNROLL
#define UNROLL_BY_4
#define SHARED_MEMORY(name, count) float *const name = emulator_shared(count)
#define thread_index()             emulator_thread_index()
#define block_index()              emulator_block_index()
#define barrier()                  emulator_barrier(__LINE__)
#define warp_barrier()             emulator_warp_barrier(__LINE__)
#define shuffle_xor(x, mask)       emulator_shuffle_xor(x, mask, __LINE__)
#define vote(x)                    emulator_vote((x) != 0, __LINE__)
#define count_bits(x)              ((u32)__builtin_popcount(x))

DEV float float_of_bits(u32 x)
{
    float value;
    memcpy(&value, &x, sizeof value);
    return value;
}

DEV u32 bits_of_float(float x)
{
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

DEV float square_root(float x)
{
    return __builtin_sqrtf(x);
}

DEV double double_of_bits(u64 x)
{
    double value;
    memcpy(&value, &x, sizeof value);
    return value;
}

DEV u64 bits_of_double(double x)
{
    u64 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

DEV double square_root_double(double x)
{
    return __builtin_sqrt(x);
}

DEV u32 multiply_high(u32 x, u32 y)
{
    return (u32)((u64)x * y >> 32);
}

DEV u32 narrow(float x)
{
    u32 bits = bits_of_float(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

DEV u32 narrow_pair(float low, float high)
{
    return narrow(low) | narrow(high) << 16;
}

DEV u32 narrow_half(float x)
{
    const u32 bits = bits_of_float(x) & 0x7fffffffu, sign = bits_of_float(x) >> 16 & 0x8000u;
    if (bits > 0x7f800000u)
        return 0x7fff;
    if (bits >= 0x477ff000u) /* 65520 */
        return sign | 0x7c00u;
    if (bits < 0x38800000u) /* subnormal: the last place of 0.5 is 2^-24 */
        return sign | (bits_of_float(float_of_bits(bits) + 0.5f) - 0x3f000000u);
    return sign | (((bits + 0xfffu + (bits >> 13 & 1u)) >> 13) - 0x1c000u);
}

DEV u32 narrow_half_pair(float low, float high)
{
    return narrow_half(low) | narrow_half(high) << 16;
}

DEV float widen_half(u32 bits)
{
    const u32 sign = bits << 16 & 0x80000000u, rest = bits & 0x7fffu;
    if (rest >= 0x7c00u)
        return float_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest < 0x400u)
        return sign ? -(float)rest * 0x1p-24f : (float)rest * 0x1p-24f;
    return float_of_bits(sign | (rest + 0x1c000u) << 13);
}

#define READ(name, type)                                                                           \
    DEV type name(const u8 *p)                                                                     \
    {                                                                                              \
        type value;                                                                                \
        emulator_access(p, sizeof value, 0);                                                       \
        memcpy(&value, p, sizeof value);                                                           \
        return value;                                                                              \
    }
READ(read4, u32)
READ(read8, struct u32x2)
READ(read16, struct u32x4)
DEV u32 read2(const u8 *p)
{
    u16 value;
    emulator_access(p, 2, 0);
    memcpy(&value, p, 2);
    return value;
}

DEV void write_bytes(u8 *p, const void *from, u32 bytes)
{
    emulator_access(p, bytes, 1);
    memcpy(p, from, bytes);
}
DEV void write2(u8 *p, u32 x)
{
    u16 value = (u16)x;
    write_bytes(p, &value, 2);
}
DEV void write4(u8 *p, u32 x)
{
    write_bytes(p, &x, 4);
}
DEV void write8(u8 *p, u32 x, u32 y)
{
    write_bytes(p, (u32[]){x, y}, 8);
}
DEV void write16(u8 *p, u32 x, u32 y, u32 z, u32 w)
{
    write_bytes(p, (u32[]){x, y, z, w}, 16);
}

DEV void set_flag(u8 *p)
{
    const u32 one = 1;
    emulator_flag(p);
    memcpy(p, &one, sizeof one);
}

DEV float shared_read(const float *shared, u32 i)
{
    emulator_shared_access(shared, i, 0);
    return shared[i];
}
DEV void shared_write(float *shared, u32 i, float x)
{
    emulator_shared_access(shared, i, 1);
    shared[i] = x;
}

#define shuffle_from(x, lane)                emulator_shuffle_from(x, lane, __LINE__)
#define TILE_MEMORY(name)                    const u32 name = emulator_tile_memory()
#define copy4(to, from, bytes)               emulator_copy(to, from, 4, bytes)
#define copy16(to, from, bytes)              emulator_copy(to, from, 16, bytes)
#define end_copies()                         emulator_end_copies()
#define wait_copies(groups)                  emulator_wait_copies(groups)
#define read_matrices(x, address)            emulator_read_matrices(x, address, 0, __LINE__)
#define read_matrices_transposed(x, address) emulator_read_matrices(x, address, 1, __LINE__)
#define add_product_bf16(sum, x, y0, y1)     emulator_add_product(sum, x, y0, y1, 0, __LINE__)
#define add_product_f16(sum, x, y0, y1)      emulator_add_product(sum, x, y0, y1, 1, __LINE__)

DEV float multiply_add(float x, float y, float z)
{
    return __builtin_fmaf(x, y, z);
}
DEV float maximum(float x, float y)
{
    return __builtin_fmaxf(x, y);
}
DEV float exponential2(float x)
{
    return __builtin_exp2f(x);
}
DEV u32 opaque(u32 x)
{
    return x;
}
DEV struct u32x2 shared_read8(u32 address)
{
    struct u32x2 value;
    emulator_tile_read(address, &value, sizeof value);
    return value;
}
DEV struct u32x4 shared_read16(u32 address)
{
    struct u32x4 value;
    emulator_tile_read(address, &value, sizeof value);
    return value;
}
#endif

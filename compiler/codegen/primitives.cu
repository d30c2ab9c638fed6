/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel may use of the machine. This part is CUDA; whoever defines REMAT_PRIMITIVES has put
 * another in its place (tests/emulator/primitives.h). All accesses of memory go through here. */
#ifndef REMAT_PRIMITIVES
#define REMAT_PRIMITIVES
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
struct u32x2 { u32 x, y; };
struct u32x4 { u32 x, y, z, w; };
struct arguments { u64 word[64]; }; /* counts, addresses and sites, in the order a kernel reads them */
struct tensors { u64 word[512]; };  /* how many, addresses that they share, then the words of each */

/* Threads of a block, and of how many blocks the registers shall fit a multiprocessor's. */
#define KERNEL(name, ...) \
    extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name(const struct arguments arguments)
#define TENSORS_KERNEL(name, threads) \
    extern "C" __global__ void __launch_bounds__(threads) \
        name(const __grid_constant__ struct tensors arguments)
#define DEV static __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define UNROLL_BY_4 _Pragma("unroll 4")
#define SHARED_MEMORY(name, count) __shared__ __align__(16) float name[count]

DEV u32 thread_index(void) { return threadIdx.x; }
DEV u32 block_index(void) { return blockIdx.x; }
DEV void barrier(void) { __syncthreads(); }
DEV void warp_barrier(void) { __syncwarp(); }
DEV float shuffle_xor(float x, u32 mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
/* Bit i: of lane i of the warp. */
DEV u32 vote(bool x) { return __ballot_sync(0xffffffffu, x); }

DEV float float_of_bits(u32 x) { return __uint_as_float(x); }
DEV u32 bits_of_float(float x) { return __float_as_uint(x); }
DEV float square_root(float x) { return __fsqrt_rn(x); }
DEV double double_of_bits(u64 x) { return __longlong_as_double((i64)x); }
DEV u64 bits_of_double(double x) { return (u64)__double_as_longlong(x); }
DEV double square_root_double(double x) { return __dsqrt_rn(x); }
DEV u32 multiply_high(u32 x, u32 y) { return __umulhi(x, y); }
DEV u32 count_bits(u32 x) { return (u32)__popc(x); } /* that are 1 */
/* To nearest even; NaN stays NaN. `low` goes to the lower half. */
DEV u32 narrow_pair(float low, float high)
{
    u32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
/* f16: the same; from 65520 on infinity. */
DEV u32 narrow_half_pair(float low, float high)
{
    u32 bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
/* The value of the lower half. */
DEV float widen_half(u32 bits)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((u16)bits));
    return x;
}

DEV u32 read2(const u8 *p) { return *(const u16 *)p; }
DEV u32 read4(const u8 *p) { return *(const u32 *)p; }
DEV struct u32x2 read8(const u8 *p)
{
    const uint2 v = *(const uint2 *)p;
    return {v.x, v.y};
}
DEV struct u32x4 read16(const u8 *p)
{
    const uint4 v = *(const uint4 *)p;
    return {v.x, v.y, v.z, v.w};
}
DEV void write2(u8 *p, u32 x) { *(u16 *)p = (u16)x; }
DEV void write4(u8 *p, u32 x) { *(u32 *)p = x; }
DEV void write8(u8 *p, u32 x, u32 y) { *(uint2 *)p = make_uint2(x, y); }
DEV void write16(u8 *p, u32 x, u32 y, u32 z, u32 w) { *(uint4 *)p = make_uint4(x, y, z, w); }
/* A store of 1 that any threads may make at once. */
DEV void set_flag(u8 *p) { asm volatile("st.relaxed.gpu.u32 [%0], 1;" : : "l"(p) : "memory"); }
DEV float shared_read(const float *shared, u32 i) { return shared[i]; }
DEV void shared_write(float *shared, u32 i, float x) { shared[i] = x; }

DEV float shuffle_from(float x, u32 lane) { return __shfl_sync(0xffffffffu, x, lane); }
DEV float multiply_add(float x, float y, float z) { return __fmaf_rn(x, y, z); }
DEV float maximum(float x, float y) { return fmaxf(x, y); }
/* 2^x to 2^-22, relative */
DEV float exponential2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
/* What follows from x is computed where it stands instead of being kept in registers. */
DEV u32 opaque(u32 x)
{
    asm volatile("" : "+r"(x));
    return x;
}

/* --- tiles: dynamic shared memory by its addresses in bytes; aligned to 16 --- */
#define TILE_MEMORY(name)                                                                          \
    extern __shared__ __align__(16) u8 tile_memory[];                                              \
    const u32 name = (u32)__cvta_generic_to_shared(tile_memory)

DEV struct u32x2 shared_read8(u32 address)
{
    struct u32x2 v;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
    return v;
}
DEV struct u32x4 shared_read16(u32 address)
{
    struct u32x4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address) : "memory");
    return v;
}
/* Copies to shared memory, complete for the thread once it has waited: `bytes` are read, 4 or 16 or
 * none, and the rest are zeros. */
DEV void copy4(u32 to, const u8 *from, u32 bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" : : "r"(to), "l"(from), "r"(bytes)
                 : "memory");
}
DEV void copy16(u32 to, const u8 *from, u32 bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(to), "l"(from), "r"(bytes)
                 : "memory");
}
DEV void end_copies(void) { asm volatile("cp.async.commit_group;" : : : "memory"); }
/* Until all are complete but those of the last `groups` that ended. */
#define wait_copies(groups) asm volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory")

/* Four 8 x 8 matrices of 16 bits, a row at the address of lane i % 8 of the lanes 8 m ... 8 m + 7: a lane
 * has of matrix m columns lane % 4 * 2 and the next of row lane / 4, or of the transposed matrix. */
DEV void read_matrices(u32 *x, u32 address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address) : "memory");
}
DEV void read_matrices_transposed(u32 *x, u32 address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address) : "memory");
}
/* sum [16, 8] += x [16, 16] y [16, 8] in the warp's fragments (PTX: mma.m16n8k16) */
#define MATRIX_PRODUCT(name, dtype)                                                                \
    DEV void name(float *sum, const u32 *x, u32 y0, u32 y1)                                        \
    {                                                                                              \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." dtype "." dtype ".f32 "                       \
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                      \
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                               \
            : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1));                       \
    }
MATRIX_PRODUCT(add_product_bf16, "bf16")
MATRIX_PRODUCT(add_product_f16, "f16")
#endif

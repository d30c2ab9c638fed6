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

#define KERNEL(name, threads) \
    extern "C" __global__ void __launch_bounds__(threads) name(const struct arguments arguments)
#define DEV static __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define UNROLL_BY_4 _Pragma("unroll 4")
#define SHARED_MEMORY(name, count) __shared__ __align__(16) float name[count]

DEV u32 thread_index(void) { return threadIdx.x; }
DEV u32 block_index(void) { return blockIdx.x; }
DEV void barrier(void) { __syncthreads(); }
DEV void warp_barrier(void) { __syncwarp(); }
DEV float shuffle_xor(float x, u32 mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }

DEV float float_of_bits(u32 x) { return __uint_as_float(x); }
DEV u32 bits_of_float(float x) { return __float_as_uint(x); }
DEV float square_root(float x) { return __fsqrt_rn(x); }
DEV double double_of_bits(u64 x) { return __longlong_as_double((i64)x); }
DEV u64 bits_of_double(double x) { return (u64)__double_as_longlong(x); }
DEV double square_root_double(double x) { return __dsqrt_rn(x); }
DEV u32 multiply_high(u32 x, u32 y) { return __umulhi(x, y); }
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
DEV float shared_read(const float *shared, u32 i) { return shared[i]; }
DEV void shared_write(float *shared, u32 i, float x) { shared[i] = x; }
#endif

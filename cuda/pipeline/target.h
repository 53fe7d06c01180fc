// What generated pipelines are written in: a subset of C++ that NVRTC compiles for a GPU and the system's compiler for
// the host.
//
//   GPU    a warp takes 1024 rows; each of its 32 lanes holds 32 of them, one bit each in a mask of its own
//   host   a worker takes 1024 rows and goes through the 32 lanes in turn
//
// Code between EACH_LANE and its end runs for every lane; what a lane keeps from one such part to the next lies in
// arrays of LANES entries, indexed by AT. Atomics are the only way in which warps and workers meet.

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef __int128 i128;
typedef unsigned __int128 u128;
typedef double f64;

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define PELTON_GPU 1
#endif

#ifdef PELTON_GPU

#define DEV __device__ __forceinline__
#define LANES 1
#define EACH_LANE if (const u32 lane = threadIdx.x & 31; true)
#define AT(array) array[0]
#define UNROLL _Pragma("unroll")
#define UNROLL_4 _Pragma("unroll 4")

struct PeltonArgs { u64 w[PELTON_ARG_COUNT]; };
#define ENTRY(name) extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ PeltonArgs args)
#define W(index) args.w[index]
#define WARP ((u64(blockIdx.x) * blockDim.x + threadIdx.x) >> 5)
#define WARP_COUNT ((u64(gridDim.x) * blockDim.x) >> 5)
#define WARP_IN_BLOCK (threadIdx.x >> 5)
#define BLOCK_SHARED extern __shared__ __align__(16) u8 block_shared[];
#define BLOCK_BARRIER __syncthreads()
#define WARP_BARRIER __syncwarp()
#define THREAD_IN_BLOCK threadIdx.x
#define THREADS_IN_BLOCK blockDim.x

DEV u32 trailing_zeros(u32 x) { return __ffs(x) - 1; }
DEV u32 ones(u32 x) { return __popc(x); }
DEV u32 shift_pair(u32 low, u32 high, u32 bits) { return __funnelshift_r(low, high, bits); }
DEV bool any_lane(const u32* mask) { return __any_sync(~0u, mask[0] != 0); }
DEV u32 atomic_or(u32* at, u32 bits) { return atomicOr(at, bits); }
DEV u32 atomic_add(u32* at, u32 value) { return atomicAdd(at, value); }
DEV u64 atomic_add(u64* at, u64 value) { return atomicAdd(at, value); }
DEV void atomic_add(f64* at, f64 value) { atomicAdd(at, value); }
DEV void atomic_min(i64* at, i64 value) { atomicMin(at, value); }
DEV void atomic_max(i64* at, i64 value) { atomicMax(at, value); }
DEV u64 atomic_swap_if(u64* at, u64 expected, u64 value) { return atomicCAS(at, expected, value); }
DEV u32 atomic_swap(u32* at, u32 value) { return atomicExch(at, value); }
// Adds to the word of a row's group. Lanes that are at the word of the first of them add up what they have and go there
// once: where most rows are of one group, they would meet there one after the other.
DEV void add_together(u64* at, u64 value) {
#if __CUDA_ARCH__ >= 800
  const u32 active = __activemask(), first = __ffs(active) - 1;
  const bool is_there = __shfl_sync(active, u64(at), first) == u64(at);
  const u32 there = __ballot_sync(active, is_there);
  if (is_there && __popc(there) >= 4) {
    // Of 32 numbers of 27 bits the sum has 32; the upper part wraps as the sum itself does.
    const u32 bits = (1u << 27) - 1;
    const u64 low = __reduce_add_sync(there, u32(value) & bits);
    const u64 middle = __reduce_add_sync(there, u32(value >> 27) & bits);
    const u64 high = __reduce_add_sync(there, u32(value >> 54));
    if ((threadIdx.x & 31) == first) atomicAdd(at, low + (middle << 27) + (high << 54));
    return;
  }
#endif
  atomicAdd(at, value);
}
// The same of the number 1.
DEV void count_together(u64* at) {
  const u32 active = __activemask(), first = __ffs(active) - 1;
  const bool is_there = __shfl_sync(active, u64(at), first) == u64(at);
  const u32 there = __ballot_sync(active, is_there);
  if (!is_there) atomicAdd(at, u64(1));
  else if ((threadIdx.x & 31) == first) atomicAdd(at, u64(__popc(there)));
}
// Whoever observes a word that was published sees what was written before it.
DEV void publish(u64* at, u64 value) { __threadfence(); *(volatile u64*)at = value; }
DEV u64 observe(const u64* at) { const u64 value = *(const volatile u64*)at; __threadfence(); return value; }
// What was written before is seen by whoever sees what is written after.
DEV void fence() { __threadfence(); }
// Streamed once: kept out of the way of what is read again.
template <class T> DEV T load_once(const T* at) { return __ldcs(at); }
template <class T> DEV T load(const T* at) { return __ldg(at); }
// A place for one more row of each lane that asks now.
DEV u64 reserve_row(u64* count) {
  const u32 active = __activemask(), lane = threadIdx.x & 31, leader = __ffs(active) - 1;
  u64 first = 0;
  if (lane == leader) first = atomicAdd(count, u64(__popc(active)));
  return __shfl_sync(active, first, leader) + __popc(active & ((1u << lane) - 1));
}
#define LANE_SUM(T) DEV T lane_sum(const T* values) { T sum = values[0]; \
  for (int offset = 16; offset; offset >>= 1) sum += __shfl_down_sync(~0u, sum, offset); return sum; }
LANE_SUM(u64)
LANE_SUM(f64)
DEV i64 lane_min(const i64* values) { i64 least = values[0];
  for (int o = 16; o; o >>= 1) { i64 other = __shfl_down_sync(~0u, least, o); if (other < least) least = other; } return least; }
DEV i64 lane_max(const i64* values) { i64 most = values[0];
  for (int o = 16; o; o >>= 1) { i64 other = __shfl_down_sync(~0u, most, o); if (other > most) most = other; } return most; }
DEV u128 lane_sum(const u128* values) { u64 low = u64(values[0]), high = u64(values[0] >> 64);
  for (int o = 16; o; o >>= 1) { u64 l = __shfl_down_sync(~0u, low, o), h = __shfl_down_sync(~0u, high, o);
    low += l; high += h + (low < l); } return (u128(high) << 64) | low; }
// Adds a number of each thread; all lanes of a warp come here at once.
DEV void add_of_threads(u64* at, u64 value) {
  const u64 sum = lane_sum(&value);
  if ((threadIdx.x & 31) == 0 && sum) atomic_add(at, sum);
}
#define IS_FIRST_LANE ((threadIdx.x & 31) == 0)
// The test is true for the first of `count` positions: for how many? All lanes of a warp ask at once and get the same
// answer, after one look of each for every factor of 32.
template <class Test> DEV u32 count_of_first(u32 count, Test test) {
  u32 low = 0, high = count;
  while (low < high) {
    const u32 step = (high - low + 31) >> 5, at = low + (threadIdx.x & 31) * step;
    const u32 passed = __popc(__ballot_sync(~0u, at < high && test(at)));
    if (passed == 0) break;
    const u32 beyond = low + passed * step;
    low = beyond - step + 1;
    high = beyond < high ? beyond : high;
  }
  return low;
}
// The sum of a number of each lane; all lanes of a warp ask at once and get it.
template <class Of> DEV u32 sum_over_lanes(Of of) {
  u32 sum = of(threadIdx.x & 31);
  for (u32 o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  return sum;
}
// Of 1024 numbers, number 32 i + lane being of(i, lane), the sum of `first` and those before each; behind them, and
// returned, that of all. All lanes of a warp together.
template <class Of> DEV u32 running_sums(u32 first, Of of, u32* sums) {
  const u32 lane = threadIdx.x & 31;
  for (u32 i = 0; i < 32; i++) {
    const u32 own = of(i, lane);
    u32 upto = own;
    for (u32 o = 1; o < 32; o <<= 1) { const u32 before = __shfl_up_sync(~0u, upto, o); if (lane >= o) upto += before; }
    sums[32 * i + lane] = first + upto - own;
    first += __shfl_sync(~0u, upto, 31);
  }
  if (lane == 0) sums[1024] = first;
  return first;
}
DEV u32 swap_bytes(u32 word) { return __byte_perm(word, 0, 0x0123); }
// 16 bytes from a multiple of 16 on.
DEV void load_block(const u8* at, u32* words) {
  const uint4 block = __ldg((const uint4*)at);
  words[0] = block.x; words[1] = block.y; words[2] = block.z; words[3] = block.w;
}
DEV u64 bits_of(f64 value) { return __double_as_longlong(value); }
DEV f64 of_bits(u64 bits) { return __longlong_as_double(i64(bits)); }

#else  // the host

#include <string.h>
#define DEV inline __attribute__((always_inline))
#define LANES 32
#define EACH_LANE for (u32 lane = 0; lane < 32; lane++)
#define AT(array) array[lane]
#define UNROLL
#define UNROLL_4
#define ENTRY(name) extern "C" void name(const u64* args, u32 worker, u32 worker_count)
#define W(index) args[index]
#define WARP u64(worker)
#define WARP_COUNT u64(worker_count)
#define WARP_IN_BLOCK 0u
#define BLOCK_SHARED alignas(16) static thread_local u8 block_shared[PELTON_SHARED_BYTES + 16];
#define BLOCK_BARRIER
#define WARP_BARRIER
#define THREAD_IN_BLOCK 0u
#define THREADS_IN_BLOCK 1u

DEV u32 trailing_zeros(u32 x) { return u32(__builtin_ctz(x)); }
DEV u32 ones(u32 x) { return u32(__builtin_popcount(x)); }
DEV u32 shift_pair(u32 low, u32 high, u32 bits) { return u32(((u64(high) << 32) | low) >> bits); }
DEV bool any_lane(const u32* mask) { u32 any = 0; for (u32 i = 0; i < 32; i++) any |= mask[i]; return any != 0; }
DEV u32 atomic_or(u32* at, u32 bits) { return __atomic_fetch_or(at, bits, __ATOMIC_RELAXED); }
DEV u32 atomic_add(u32* at, u32 value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
DEV u64 atomic_add(u64* at, u64 value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
DEV void add_together(u64* at, u64 value) { atomic_add(at, value); }
DEV void count_together(u64* at) { atomic_add(at, u64(1)); }
DEV u64 bits_of(f64 value) { u64 bits; memcpy(&bits, &value, 8); return bits; }
DEV f64 of_bits(u64 bits) { f64 value; memcpy(&value, &bits, 8); return value; }
DEV u64 atomic_swap_if(u64* at, u64 expected, u64 value) {
  __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); return expected; }
DEV u32 atomic_swap(u32* at, u32 value) { return __atomic_exchange_n(at, value, __ATOMIC_RELAXED); }
DEV void atomic_add(f64* at, f64 value) {
  u64* word = (u64*)at; u64 seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) { u64 was = atomic_swap_if(word, seen, bits_of(of_bits(seen) + value)); if (was == seen) return; seen = was; } }
DEV void atomic_min(i64* at, i64 value) {
  i64 seen = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value < seen && !__atomic_compare_exchange_n(at, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {} }
DEV void atomic_max(i64* at, i64 value) {
  i64 seen = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value > seen && !__atomic_compare_exchange_n(at, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {} }
DEV void publish(u64* at, u64 value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }
DEV u64 observe(const u64* at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
DEV void fence() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
template <class T> DEV T load_once(const T* at) { return *at; }
template <class T> DEV T load(const T* at) { return *at; }
DEV u64 reserve_row(u64* count) { return atomic_add(count, u64(1)); }
#define LANE_SUM(T) DEV T lane_sum(const T* values) { T sum = 0; for (u32 i = 0; i < 32; i++) sum += values[i]; return sum; }
LANE_SUM(u64)
LANE_SUM(f64)
LANE_SUM(u128)
DEV void add_of_threads(u64* at, u64 value) { if (value) atomic_add(at, value); }
DEV i64 lane_min(const i64* values) { i64 least = values[0]; for (u32 i = 1; i < 32; i++) if (values[i] < least) least = values[i]; return least; }
DEV i64 lane_max(const i64* values) { i64 most = values[0]; for (u32 i = 1; i < 32; i++) if (values[i] > most) most = values[i]; return most; }
#define IS_FIRST_LANE true
template <class Test> DEV u32 count_of_first(u32 count, Test test) {
  u32 low = 0, high = count;
  while (low < high) { const u32 middle = (low + high) >> 1; if (test(middle)) low = middle + 1; else high = middle; }
  return low;
}
template <class Of> DEV u32 sum_over_lanes(Of of) { u32 sum = 0; for (u32 lane = 0; lane < 32; lane++) sum += of(lane); return sum; }
template <class Of> DEV u32 running_sums(u32 first, Of of, u32* sums) {
  for (u32 i = 0; i < 1024; i++) { sums[i] = first; first += of(i >> 5, i & 31); }
  sums[1024] = first;
  return first;
}
DEV u32 swap_bytes(u32 word) { return __builtin_bswap32(word); }
DEV void load_block(const u8* at, u32* words) { memcpy(words, at, 16); }

#endif

// A flag that a pipeline raises; never lowered while it runs. The word after them says which check found an overflow,
// counted from 1.
enum Flag : u32 { FLAG_DUPLICATE = 1, FLAG_OVERFLOW = 16 };
#ifdef PELTON_GPU
DEV void raise_flag(u32* flags, Flag flag) { atomic_or(flags, flag); }
#else
// Cores that write to one word wait for each other: one that is raised already is only read.
DEV void raise_flag(u32* flags, Flag flag) {
  if (!(__atomic_load_n(flags, __ATOMIC_RELAXED) & flag)) atomic_or(flags, flag);
}
#endif
DEV void report_overflow(u32* flags, u32 check) { atomic_swap(flags + 1, check); raise_flag(flags, FLAG_OVERFLOW); }

// splitmix64's finisher; all equal on request, to test what collisions do.
DEV u64 hash_of(u64 key) {
#ifdef PELTON_EQUAL_HASHES
  return 0;
#else
  key ^= key >> 30; key *= 0xBF58476D1CE4E5B9ull; key ^= key >> 27; key *= 0x94D049BB133111EBull; return key ^ (key >> 31);
#endif
}

// Orders doubles as SQL does here: the two zeros are equal, and so are all NaNs, which are greater than anything else.
DEV i64 total_order(f64 value) {
  if (value != value) return 0x7FFFFFFFFFFFFFFFll;
  const i64 bits = value == 0 ? 0 : i64(bits_of(value));
  return bits ^ i64(u64(bits >> 63) >> 1);
}

// The order of doubles by their bits, where every value has a place of its own, and back.
DEV i64 order_of_bits(f64 value) {
  const i64 bits = i64(bits_of(value));
  return bits ^ i64(u64(bits >> 63) >> 1);
}
DEV f64 of_order(i64 order) { return of_bits(u64(order ^ i64(u64(order >> 63) >> 1))); }

// One zero, one NaN: adding 0 turns -0 into 0 and changes nothing else.
DEV f64 float_key(f64 value) { return value != value ? of_bits(0x7FF8000000000000ull) : value + 0.0; }

// Integer arithmetic that says whether the result left its type. The value is then some value of the type.
template <class T> struct Checked { T value; bool overflows; };
DEV Checked<i32> checked(i64 exact) { return {i32(exact), exact != i32(exact)}; }
DEV Checked<i32> checked_add(i32 a, i32 b) { return checked(i64(a) + b); }
DEV Checked<i32> checked_subtract(i32 a, i32 b) { return checked(i64(a) - b); }
DEV Checked<i32> checked_multiply(i32 a, i32 b) { return checked(i64(a) * b); }
DEV Checked<i64> checked_add(i64 a, i64 b) {
  const i64 sum = i64(u64(a) + u64(b));
  return {sum, ((a ^ sum) & (b ^ sum)) < 0};
}
DEV Checked<i64> checked_subtract(i64 a, i64 b) {
  const i64 difference = i64(u64(a) - u64(b));
  return {difference, ((a ^ b) & (a ^ difference)) < 0};
}
DEV Checked<i64> checked_multiply(i64 a, i64 b) {
  const i128 product = i128(a) * b;
  return {i64(product), product != i64(product)};
}
DEV Checked<i128> checked_add(i128 a, i128 b) {
  const i128 sum = i128(u128(a) + u128(b));
  return {sum, ((a ^ sum) & (b ^ sum)) < 0};
}
DEV Checked<i128> checked_subtract(i128 a, i128 b) {
  const i128 difference = i128(u128(a) - u128(b));
  return {difference, ((a ^ b) & (a ^ difference)) < 0};
}
// There is no wider type to multiply in. Doubles are right to 2^-50: what they say is below 9.9999e37 is below 10^38,
// which is where decimals end; what lies closer to that counts as an overflow.
DEV Checked<i128> checked_multiply(i128 a, i128 b) {
  const i128 product = i128(u128(a) * u128(b));
  if (a == i64(a) && b == i64(b)) return {product, false};
  const f64 about = f64(a) * f64(b);
  return {product, !(about < 9.9999e37 && about > -9.9999e37)};
}
template <class T> DEV Checked<T> checked_divide(T a, T b) {
  const bool overflows = b == 0 || (b == -1 && a == T(T(1) << (8 * sizeof(T) - 1)));
  return {overflows ? T(0) : T(a / (overflows ? T(1) : b)), overflows};
}
template <class T> DEV Checked<T> checked_remainder(T a, T b) {
  return {b == 0 || b == -1 ? T(0) : T(a % (b == 0 ? T(1) : b)), b == 0};
}

// Days since 1970-01-01 to a civil date (Hinnant, "chrono-compatible low-level date algorithms").
struct CivilDate { i32 year, month, day; };
DEV CivilDate civil_date(i32 days) {
  const i64 z = i64(days) + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
  const u32 doe = u32(z - era * 146097), yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const u32 doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
  const i32 month = i32(mp < 10 ? mp + 3 : mp - 9);
  return {i32(i64(yoe) + era * 400) + (month <= 2), month, i32(doy - (153 * mp + 2) / 5 + 1)};
}

// The other way.
DEV i32 days_of(i32 year, i32 month, i32 day) {
  const i64 y = i64(year) - (month <= 2), era = (y >= 0 ? y : y - 399) / 400;
  const u32 yoe = u32(y - era * 400), mp = u32(month > 2 ? month - 3 : month + 9);
  return i32(era * 146097 + i64(yoe * 365 + yoe / 4 - yoe / 100 + (153 * mp + 2) / 5 + u32(day) - 1) - 719468);
}

DEV i64 floor_divide(i64 value, i64 by) { return value / by - (value % by < 0); }

DEV i32 days_after_monday(i64 days) { return i32(days + 3 - floor_divide(days + 3, 7) * 7); }

DEV i32 day_of_year(i32 days) { return days - days_of(civil_date(days).year, 1, 1) + 1; }

// An ISO week belongs to the year of its Thursday.
DEV i32 iso_thursday(i32 days) { return days - days_after_monday(days) + 3; }
DEV i32 iso_week(i32 days) { return (day_of_year(iso_thursday(days)) - 1) / 7 + 1; }

DEV i32 first_of_quarter(i32 days) {
  const CivilDate date = civil_date(days);
  return days_of(date.year, (date.month - 1) / 3 * 3 + 1, 1);
}

DEV i32 days_of_month(i32 year, i32 month) {
  const bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return month == 2 ? 28 + is_leap : 30 + ((month + (month >= 8)) & 1);
}

DEV i32 add_months(i32 days, i32 months) {
  const CivilDate date = civil_date(days);
  const i64 month = i64(date.year) * 12 + (date.month - 1) + months;
  const i32 year = i32(floor_divide(month, 12)), of_year = i32(month - i64(year) * 12) + 1;
  const i32 last = days_of_month(year, of_year);
  return days_of(year, of_year, date.day < last ? date.day : last);
}

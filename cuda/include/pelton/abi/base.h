/* What all headers of this folder share: the C interface between the CUDA library and whoever calls it.
 *
 * These headers are the one source of the layout of every argument struct. They compile as C11 and as C++17; the
 * other side mirrors them and asserts the same sizes and offsets. Rules of every entry k_<operation>:
 *
 *   - it enqueues on the stream that it is given, in the context that is current, and returns;
 *   - it allocates nothing, waits for nothing and prints nothing;
 *   - it returns a cudaError_t as int, 0 for success;
 *   - the memory that its arguments name is reached by the device and stays until the work is over.
 */
#ifndef PELTON_ABI_BASE_H
#define PELTON_ABI_BASE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* Raised whenever a struct or the meaning of a field changes. */
#define K_ABI_VERSION 4u

#ifdef __cplusplus
#define K_ENTRY extern "C" __attribute__((visibility("default")))
#else
#define K_ENTRY extern __attribute__((visibility("default")))
#endif

/* How work is mapped to the machine. Never changes a result. */
typedef enum k_policy {
  /* What is fastest on the machines that were measured. */
  K_POLICY_DEFAULT = 0,
  /* Fewer threads, more loads in flight for each. */
  K_POLICY_DEEP = 1,
  /* Few threads, one load in flight: keeps results honest, and shows what parallelism brings. */
  K_POLICY_NARROW = 2,
  K_POLICY_COUNT = 3
} k_policy;

/* Where and how to launch; the last field of every argument struct. */
typedef struct k_launch {
  /* Multiprocessors of the device, to size a grid by; at least 1. */
  uint32_t multiprocessors;
  /* A k_policy. */
  uint32_t policy;
} k_launch;

static_assert(sizeof(k_launch) == 8, "k_launch has no padding");
static_assert(sizeof(void *) == 8, "addresses are 64 bits wide");

#endif

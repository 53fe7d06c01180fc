/// The mark of functions that run on the host and on the device.
#pragma once

#if defined(__CUDACC__)
#define HD __host__ __device__
#else
#define HD
#endif

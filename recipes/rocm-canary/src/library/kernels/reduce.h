#pragma once

#include <cstddef>

namespace canary {

constexpr int reduce_threads = 256;
constexpr int smallest_wave = 32;

// A wave has 64 lanes on GCN and CDNA, 32 on RDNA. `warpSize` is a compile-time constant in some HIP
// releases only, so nothing here depends on it being one.
__device__ inline double wave_sum(double value) {
  const int lanes = warpSize;
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    value += __shfl_down(value, static_cast<unsigned int>(distance), lanes);
  return value;
}

// Adds up `count` values into gridDim.x partial sums, one a block of reduce_threads threads.
template <class Value>
__global__ void reduce(const Value *values, std::size_t count, double *partial_sums) {
  __shared__ double wave_sums[reduce_threads / smallest_wave];

  const int lanes = warpSize;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int wave = static_cast<int>(threadIdx.x) / lanes;
  const int waves = reduce_threads / lanes;

  double sum = 0.0;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    sum += static_cast<double>(values[i]);

  sum = wave_sum(sum);
  if (lane == 0)
    wave_sums[wave] = sum;
  __syncthreads();
  if (wave == 0) {
    sum = wave_sum(lane < waves ? wave_sums[lane] : 0.0);
    if (lane == 0)
      partial_sums[blockIdx.x] = sum;
  }
}

} // namespace canary

#pragma once

#include <cstddef>

namespace canary {

__global__ void vector_add(const float *a, const float *b, float *sum, std::size_t count) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    sum[i] = a[i] + b[i];
}

} // namespace canary

#include "gpu.h"

#include "kernels/vector_add.h"

int rocm_canary_vector_add(int device, const float *a, const float *b, float *sum, size_t count,
                           double *seconds) {
  return canary::guarded([=] {
    using namespace canary;
    constexpr int threads = 256;
    constexpr unsigned int most_blocks = 8192;

    select_device(device);
    const DeviceBuffer<float> a_on_gpu(a, count);
    const DeviceBuffer<float> b_on_gpu(b, count);
    const DeviceBuffer<float> sum_on_gpu(count);
    run_timed(seconds, [&] {
      launch_checked("launch of vector_add", [&] {
        vector_add<<<blocks_for(count, threads, most_blocks), threads>>>(a_on_gpu.get(), b_on_gpu.get(),
                                                                         sum_on_gpu.get(), count);
      });
    });
    sum_on_gpu.copy_to(sum);
  });
}

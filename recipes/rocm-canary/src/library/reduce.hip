#include "gpu.h"

#include "kernels/reduce.h"

int rocm_canary_reduce(int device, const float *values, size_t count, double *sum, double *seconds) {
  return canary::guarded([=] {
    using namespace canary;
    constexpr unsigned int most_blocks = 2048;

    select_device(device);
    const unsigned int blocks = blocks_for(count, reduce_threads, most_blocks);
    const DeviceBuffer<float> values_on_gpu(values, count);
    const DeviceBuffer<double> partial_sums(blocks);
    const DeviceBuffer<double> sum_on_gpu(1);
    run_timed(seconds, [&] {
      launch_checked("launch of reduce over the values", [&] {
        reduce<float><<<blocks, reduce_threads>>>(values_on_gpu.get(), count, partial_sums.get());
      });
      launch_checked("launch of reduce over the partial sums", [&] {
        reduce<double><<<1, reduce_threads>>>(partial_sums.get(), static_cast<std::size_t>(blocks),
                                              sum_on_gpu.get());
      });
    });
    sum_on_gpu.copy_to(sum);
  });
}

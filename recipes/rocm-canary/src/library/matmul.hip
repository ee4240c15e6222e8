#include "gpu.h"

#include "kernels/matmul.h"

namespace {

void require_positive(int value, const char *name) {
  if (value < 1)
    throw canary::Failure{ROCM_CANARY_USAGE, std::string("matmul: ") + name + " is " + std::to_string(value) +
                                                 ", and must be at least 1"};
}

unsigned int tiles(int length) { return static_cast<unsigned int>((length - 1) / canary::tile + 1); }

} // namespace

int rocm_canary_matmul(int device, const float *a, const float *b, float *c, int rows, int columns, int depth,
                       int *matrix_cores, double *seconds) {
  return canary::guarded([=] {
    using namespace canary;
    require_positive(rows, "rows");
    require_positive(columns, "columns");
    require_positive(depth, "depth");
    const auto area = [](int height, int width) { return static_cast<std::size_t>(height) * width; };

    select_device(device);
    const DeviceBuffer<float> a_on_gpu(a, area(rows, depth));
    const DeviceBuffer<float> b_on_gpu(b, area(depth, columns));
    const DeviceBuffer<float> c_on_gpu(area(rows, columns));
    const DeviceBuffer<int> matrix_cores_on_gpu(1);
    const Product product{a_on_gpu.get(), b_on_gpu.get(), c_on_gpu.get(), rows, columns, depth};
    run_timed(seconds, [&] {
      launch_checked("launch of matmul", [&] {
        matmul<<<dim3(tiles(columns), tiles(rows)), matmul_threads>>>(product, matrix_cores_on_gpu.get());
      });
    });
    c_on_gpu.copy_to(c);
    if (matrix_cores != nullptr)
      matrix_cores_on_gpu.copy_to(matrix_cores);
  });
}

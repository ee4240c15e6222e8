#pragma once

#include "rocm_canary.h"

#include <string>

namespace canary {

// librocm_canary.so, loaded, and with it the HIP runtime. Stays loaded until the process ends: unloading a
// HIP runtime is not something that all of its releases survive.
struct HipLibrary {
  // Throws Failure (ROCM_CANARY_NO_RUNTIME) with the loader's own words.
  explicit HipLibrary(const std::string &path);

  decltype(&rocm_canary_last_error) last_error;
  decltype(&rocm_canary_runtime_version) runtime_version;
  decltype(&rocm_canary_device_count) device_count;
  decltype(&rocm_canary_describe_device) describe_device;
  decltype(&rocm_canary_vector_add) vector_add;
  decltype(&rocm_canary_reduce) reduce;
  decltype(&rocm_canary_matmul) matmul;
  decltype(&rocm_canary_reference_vector_add) reference_vector_add;
  decltype(&rocm_canary_reference_reduce) reference_reduce;
  decltype(&rocm_canary_reference_matmul) reference_matmul;

  // Throws Failure with `status` and the library's error text if it is not ROCM_CANARY_OK.
  void require_ok(int status) const;
};

} // namespace canary

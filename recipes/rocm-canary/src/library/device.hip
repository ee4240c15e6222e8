#include "gpu.h"

#include <cstring>

int rocm_canary_runtime_version(int *version) {
  return canary::guarded([=] {
    // A stub made for linking leaves `version` alone and returns anything; asking it for the error's name
    // would crash.
    *version = 0;
    const hipError_t error = hipRuntimeGetVersion(version);
    if (*version <= 0)
      throw canary::Failure{ROCM_CANARY_HIP_FAILED,
                            "hipRuntimeGetVersion gives no version (error " +
                                std::to_string(static_cast<int>(error)) +
                                "): this libamdhip64 is a stub made for linking, or cannot start on this host"};
    canary::check(error, "hipRuntimeGetVersion");
  });
}

int rocm_canary_device_count(int *count) {
  return canary::guarded([=] {
    *count = 0;
    canary::check(hipGetDeviceCount(count), "hipGetDeviceCount");
  });
}

int rocm_canary_describe_device(int device, rocm_canary_device *description) {
  return canary::guarded([=] {
    hipDeviceProp_t properties{};
    canary::check(hipGetDeviceProperties(&properties, device), "hipGetDeviceProperties");
    *description = {};
    std::strncpy(description->name, properties.name, sizeof description->name - 1);
    std::strncpy(description->arch, properties.gcnArchName, sizeof description->arch - 1);
    description->wavefront_size = properties.warpSize;
    description->compute_units = properties.multiProcessorCount;
    description->memory_bytes = properties.totalGlobalMem;
  });
}

#pragma once

#include "error.h"

#include <hip/hip_runtime.h>

#include <cstddef>
#include <string>

namespace canary {

inline void check(hipError_t error, const char *call) {
  if (error == hipSuccess)
    return;
  throw Failure{ROCM_CANARY_HIP_FAILED, std::string(call) + " failed: " + hipGetErrorName(error) + " (" +
                                            std::to_string(static_cast<int>(error)) + "), " +
                                            hipGetErrorString(error)};
}

// A launch itself returns nothing; an error of an earlier call must not be taken for one of the launch.
template <class Launch> void launch_checked(const char *kernel, Launch &&launch) {
  (void)hipGetLastError();
  launch();
  check(hipGetLastError(), kernel);
}

template <class Value> class DeviceBuffer {
  Value *values = nullptr;
  std::size_t count;

public:
  explicit DeviceBuffer(std::size_t wanted) : count(wanted) {
    check(hipMalloc(reinterpret_cast<void **>(&values), count * sizeof(Value)), "hipMalloc");
  }
  DeviceBuffer(const Value *source, std::size_t wanted) : DeviceBuffer(wanted) {
    check(hipMemcpy(values, source, count * sizeof(Value), hipMemcpyHostToDevice), "hipMemcpy to the GPU");
  }
  DeviceBuffer(const DeviceBuffer &) = delete;
  DeviceBuffer &operator=(const DeviceBuffer &) = delete;
  ~DeviceBuffer() { (void)hipFree(values); }

  void copy_to(Value *target) const {
    check(hipMemcpy(target, values, count * sizeof(Value), hipMemcpyDeviceToHost), "hipMemcpy from the GPU");
  }
  Value *get() const { return values; }
};

class Event {
  hipEvent_t event{};

public:
  Event() { check(hipEventCreate(&event), "hipEventCreate"); }
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;
  ~Event() { (void)hipEventDestroy(event); }

  void record() { check(hipEventRecord(event, nullptr), "hipEventRecord"); }
  double seconds_until(const Event &end) const {
    check(hipEventSynchronize(end.event), "hipEventSynchronize");
    float milliseconds = 0.0f;
    check(hipEventElapsedTime(&milliseconds, event, end.event), "hipEventElapsedTime");
    return milliseconds / 1000.0;
  }
};

// Runs `launch` once, which is the warm-up too, and again for the mean time where `seconds` is given.
template <class Launch> void run_timed(double *seconds, Launch &&launch) {
  constexpr int repeats = 10;
  launch();
  check(hipDeviceSynchronize(), "hipDeviceSynchronize");
  if (seconds == nullptr)
    return;
  Event start, end;
  start.record();
  for (int i = 0; i < repeats; ++i)
    launch();
  end.record();
  *seconds = start.seconds_until(end) / repeats;
}

inline void select_device(int device) { check(hipSetDevice(device), "hipSetDevice"); }

// Blocks for a loop over `count` elements, few enough to keep each one busy.
inline unsigned int blocks_for(std::size_t count, int threads, unsigned int most) {
  const std::size_t blocks = (count + static_cast<std::size_t>(threads) - 1) / static_cast<std::size_t>(threads);
  if (blocks == 0)
    return 1;
  return blocks < most ? static_cast<unsigned int>(blocks) : most;
}

} // namespace canary

// A libamdhip64 that runs rocm-canary's kernels on the CPU, lane by lane, so that a machine without a GPU can
// test the library from end to end: the index arithmetic of the kernels, the exchanges within a wave, the MFMA
// register layout as AMD documents it, grids, arguments, copies, comparison and report. It proves nothing of a
// GPU, its compiler or its runtime.
//
// Compile for one arch, as a device compiler does: -D__gfx90a__ (or none) -DEMULATED_ARCH="..." -DEMULATED_WAVE=64
// Export no more than hip* and __hip*: the library has symbols named as the kernels here.
// EMULATED_FAULT in the environment: wrong | memory | no-device | other-arch

#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>

#include <csetjmp>
#include <ucontext.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#undef __global__
#undef __device__
#undef __shared__
#define __global__
#define __device__
#define __shared__ static

namespace {

dim3 gridDim, blockDim, blockIdx, threadIdx;
int warpSize = EMULATED_WAVE;

// The lanes of a block take turns, each on a stack of its own; a turn ends at the next point where lanes meet. The
// lanes of a wave pass the same points, and those of a block do up to the last __syncthreads(), so that when a lane
// comes back from its turn, every other that it exchanges values with has reached that point.
struct Lane {
  std::vector<char> stack = std::vector<char>(64 << 10);
  ucontext_t start;
  jmp_buf here;
  bool started = false;
  bool done = false; // with the block
};

jmp_buf scheduler;
std::vector<Lane> lanes;
std::size_t current;
std::function<void()> kernel_of_lanes;

void meet() {
  if (_setjmp(lanes[current].here) == 0)
    _longjmp(scheduler, 1);
}

void run_lane() {
  while (true) {
    kernel_of_lanes();
    lanes[current].done = true;
    meet();
  }
}

// swapcontext() costs two system calls, so a context only starts a lane; later turns are jumps.
void take_turn(Lane &lane) {
  if (_setjmp(scheduler) != 0)
    return;
  if (lane.started)
    _longjmp(lane.here, 1);
  getcontext(&lane.start);
  lane.start.uc_stack = {lane.stack.data(), 0, lane.stack.size()};
  makecontext(&lane.start, run_lane, 0);
  lane.started = true;
  setcontext(&lane.start);
}

void run_block() {
  for (Lane &lane : lanes)
    lane.done = false;
  for (bool running = true; running;) {
    running = false;
    for (current = 0; current < lanes.size(); ++current) {
      if (lanes[current].done)
        continue;
      threadIdx = dim3(static_cast<unsigned int>(current), 0, 0);
      take_turn(lanes[current]);
      running = true;
    }
  }
}

void run_grid(dim3 grid, dim3 block, std::function<void()> kernel) {
  gridDim = grid;
  blockDim = block;
  kernel_of_lanes = std::move(kernel);
  lanes = std::vector<Lane>(block.x);
  for (unsigned int y = 0; y < grid.y; ++y) {
    for (unsigned int x = 0; x < grid.x; ++x) {
      blockIdx = dim3(x, y, 0);
      run_block();
    }
  }
}

void __syncthreads() { meet(); }

// Within `width` lanes as HIP computes the source, and within the wave as the hardware wraps it.
double __shfl_down(double value, unsigned int distance, int width) {
  static double offered[1024];
  const int lane = static_cast<int>(threadIdx.x) % warpSize;
  const int first = static_cast<int>(threadIdx.x) - lane;
  offered[threadIdx.x] = value;
  meet();
  const bool inside = lane % width + static_cast<int>(distance) < width;
  const int source = inside ? lane + static_cast<int>(distance) : lane;
  const double received = offered[first + source % warpSize];
  meet();
  return received;
}

using Fragment = float __attribute__((vector_size(16)));

Fragment mfma_16x16x4(float a, float b, Fragment sums) {
  static float offered_a[1024], offered_b[1024];
  const unsigned int lane = threadIdx.x % 64, wave = threadIdx.x - lane;
  offered_a[threadIdx.x] = a;
  offered_b[threadIdx.x] = b;
  meet();
  for (unsigned int r = 0; r < 4; ++r)
    for (unsigned int k = 0; k < 4; ++k)
      sums[r] += offered_a[wave + k * 16 + 4 * (lane / 16) + r] * offered_b[wave + k * 16 + lane % 16];
  meet();
  return sums;
}
#define __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, sums, x, y, z) mfma_16x16x4(a, b, sums)

} // namespace

#include "kernels/matmul.h"
#include "kernels/reduce.h"
#include "kernels/vector_add.h"

namespace {

std::map<const void *, std::string> kernel_names;
dim3 pushed_grid, pushed_block;
bool timing = false;

bool fault_is(const char *name) {
  const char *fault = std::getenv("EMULATED_FAULT");
  return fault != nullptr && std::strcmp(fault, name) == 0;
}

template <class Value> Value argument(void **arguments, int index) {
  return *static_cast<Value *>(arguments[index]);
}

void emulate(const std::string &name, dim3 grid, dim3 block, void **arguments) {
  const auto is = [&](const char *part) { return name.find(part) != std::string::npos; };
  if (is("vector_add")) {
    auto *sum = argument<float *>(arguments, 2);
    const auto *a = argument<const float *>(arguments, 0), *b = argument<const float *>(arguments, 1);
    const auto count = argument<std::size_t>(arguments, 3);
    run_grid(grid, block, [=] { canary::vector_add(a, b, sum, count); });
    if (fault_is("wrong"))
      sum[7] += 1.0f;
  } else if (is("reduceIf")) {
    const auto *values = argument<const float *>(arguments, 0);
    const auto count = argument<std::size_t>(arguments, 1);
    auto *sums = argument<double *>(arguments, 2);
    run_grid(grid, block, [=] { canary::reduce<float>(values, count, sums); });
  } else if (is("reduceId")) {
    const auto *values = argument<const double *>(arguments, 0);
    const auto count = argument<std::size_t>(arguments, 1);
    auto *sums = argument<double *>(arguments, 2);
    run_grid(grid, block, [=] { canary::reduce<double>(values, count, sums); });
  } else if (is("matmul")) {
    const auto product = argument<canary::Product>(arguments, 0);
    auto *matrix_cores = argument<int *>(arguments, 1);
    run_grid(grid, block, [=] { canary::matmul(product, matrix_cores); });
  } else {
    std::abort();
  }
}

} // namespace

extern "C" {

void **__hipRegisterFatBinary(const void *) {
  static void *module;
  return &module;
}
void __hipUnregisterFatBinary(void **) {}
void __hipRegisterFunction(void **, const void *function, char *, const char *name, unsigned int, void *, void *,
                           dim3 *, dim3 *, int *) {
  kernel_names[function] = name;
}
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, std::size_t, hipStream_t) {
  pushed_grid = grid;
  pushed_block = block;
  return hipSuccess;
}
hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, std::size_t *shared, hipStream_t *stream) {
  *grid = pushed_grid;
  *block = pushed_block;
  *shared = 0;
  *stream = nullptr;
  return hipSuccess;
}

hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, std::size_t,
                           hipStream_t) {
  // What is launched between two events repeats the warm-up launch.
  if (!timing)
    emulate(kernel_names.at(function), grid, block, arguments);
  return hipSuccess;
}

hipError_t hipRuntimeGetVersion(int *version) {
  *version = HIP_VERSION;
  return hipSuccess;
}
hipError_t hipGetDeviceCount(int *count) {
  *count = 1;
  return fault_is("no-device") ? hipErrorNoDevice : hipSuccess;
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties, int) {
  *properties = {};
  std::strcpy(properties->name, "CPU emulation, no GPU");
  std::strcpy(properties->gcnArchName, fault_is("other-arch") ? "gfx1030" : EMULATED_ARCH);
  properties->warpSize = EMULATED_WAVE;
  properties->multiProcessorCount = 1;
  properties->totalGlobalMem = std::size_t{1} << 30;
  return hipSuccess;
}
hipError_t hipSetDevice(int) { return hipSuccess; }
hipError_t hipDeviceSynchronize(void) { return hipSuccess; }
hipError_t hipGetLastError(void) { return hipSuccess; }
const char *hipGetErrorName(hipError_t error) {
  return error == hipErrorOutOfMemory ? "hipErrorOutOfMemory" : "hipErrorNoDevice";
}
const char *hipGetErrorString(hipError_t) { return "as EMULATED_FAULT asks"; }

hipError_t hipMalloc(void **pointer, std::size_t bytes) {
  *pointer = fault_is("memory") ? nullptr : std::malloc(bytes);
  return *pointer == nullptr ? hipErrorOutOfMemory : hipSuccess;
}
hipError_t hipFree(void *pointer) {
  std::free(pointer);
  return hipSuccess;
}
hipError_t hipMemcpy(void *target, const void *source, std::size_t bytes, hipMemcpyKind) {
  std::memcpy(target, source, bytes);
  return hipSuccess;
}

hipError_t hipEventCreate(hipEvent_t *event) {
  *event = nullptr;
  return hipSuccess;
}
hipError_t hipEventDestroy(hipEvent_t) { return hipSuccess; }
hipError_t hipEventRecord(hipEvent_t, hipStream_t) {
  timing = !timing;
  return hipSuccess;
}
hipError_t hipEventSynchronize(hipEvent_t) { return hipSuccess; }
hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t, hipEvent_t) {
  *milliseconds = 10.0f;
  return hipSuccess;
}

} // extern "C"

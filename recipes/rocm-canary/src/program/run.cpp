#include "run.h"

#include "build_info.h"
#include "failure.h"
#include "hip_library.h"
#include "info.h"
#include "kfd.h"
#include "text.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace canary {
namespace {

struct Lengths {
  std::size_t vector;
  int matrix;
};

Lengths lengths_of(Size size) {
  return size == Size::small ? Lengths{std::size_t{1} << 20, 256} : Lengths{std::size_t{1} << 26, 2048};
}

// Whole numbers from -8 to 8: every sum and product below is exact in float, so that GPU and CPU must agree
// to the last bit, whatever the order of the additions.
std::vector<float> test_values(std::size_t count, std::uint32_t seed) {
  std::vector<float> values(count);
  std::uint32_t state = seed;
  for (float &value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int>((state >> 16) % 17u) - 8);
  }
  return values;
}

void require_equal(const std::string &kernel, const std::vector<float> &gpu, const std::vector<float> &cpu) {
  std::size_t differing = 0, first = 0;
  for (std::size_t i = gpu.size(); i-- > 0;) {
    if (gpu[i] != cpu[i]) {
      ++differing;
      first = i;
    }
  }
  if (differing > 0)
    throw Failure{ROCM_CANARY_WRONG_RESULT,
                  kernel + ": " + std::to_string(differing) + " of " + std::to_string(gpu.size()) +
                      " values differ from the CPU, the first at index " + std::to_string(first) + ": GPU " +
                      std::to_string(gpu[first]) + ", CPU " + std::to_string(cpu[first]),
                  "do not use this GPU with this driver and ROCm release before the cause is known"};
}

KernelResult run_vector_add(const HipLibrary &hip, int device, std::size_t count) {
  const std::vector<float> a = test_values(count, 1), b = test_values(count, 2);
  std::vector<float> gpu(count), cpu(count);
  double seconds = 0.0;
  hip.require_ok(hip.vector_add(device, a.data(), b.data(), gpu.data(), count, &seconds));
  hip.reference_vector_add(a.data(), b.data(), cpu.data(), count);
  require_equal("vector_add", gpu, cpu);
  const double bytes = 3.0 * sizeof(float) * static_cast<double>(count);
  return {"vector_add", std::to_string(count) + " floats", seconds, bytes / seconds / 1e9, "GB/s"};
}

KernelResult run_reduce(const HipLibrary &hip, int device, std::size_t count) {
  const std::vector<float> values = test_values(count, 3);
  double gpu = 0.0, cpu = 0.0, seconds = 0.0;
  hip.require_ok(hip.reduce(device, values.data(), count, &gpu, &seconds));
  hip.reference_reduce(values.data(), count, &cpu);
  if (gpu != cpu)
    throw Failure{ROCM_CANARY_WRONG_RESULT,
                  "reduce: the sum of " + std::to_string(count) + " values differs from the CPU: GPU " +
                      std::to_string(gpu) + ", CPU " + std::to_string(cpu),
                  "do not use this GPU with this driver and ROCm release before the cause is known"};
  const double bytes = sizeof(float) * static_cast<double>(count);
  return {"reduce", std::to_string(count) + " floats", seconds, bytes / seconds / 1e9, "GB/s"};
}

KernelResult run_matmul(const HipLibrary &hip, int device, int side) {
  const std::size_t area = static_cast<std::size_t>(side) * side;
  const std::vector<float> a = test_values(area, 4), b = test_values(area, 5);
  std::vector<float> gpu(area), cpu(area);
  double seconds = 0.0;
  int matrix_cores = 0;
  hip.require_ok(hip.matmul(device, a.data(), b.data(), gpu.data(), side, side, side, &matrix_cores, &seconds));
  hip.reference_matmul(a.data(), b.data(), cpu.data(), side, side, side);
  require_equal("matmul", gpu, cpu);
  const std::string length = std::to_string(side);
  const double operations = 2.0 * side * side * side;
  return {"matmul", length + " x " + length + " x " + length, seconds, operations / seconds / 1e12, "TFLOP/s",
          matrix_cores != 0};
}

Topology require_gpu() {
  Topology topology = read_topology();
  if (!topology.gpus.empty())
    return topology;
  if (!topology.unread.empty())
    throw Failure{ROCM_CANARY_NO_GPU, "no AMD GPU can be seen: " + topology.unread.front() + " cannot be read",
                  "run as a user, or in a container, that may read it"};
  if (!topology.present)
    throw Failure{ROCM_CANARY_NO_GPU, "no AMD GPU: " + topology.folder + "/nodes does not exist",
                  "run on a host with an AMD GPU and the amdgpu driver loaded"};
  throw Failure{ROCM_CANARY_NO_GPU, "no AMD GPU among the nodes in " + topology.folder + "/nodes",
                "run on a host with an AMD GPU"};
}

[[noreturn]] void refuse_arch(const std::string &gpus, const std::vector<std::string> &targets) {
  throw Failure{ROCM_CANARY_OTHER_ARCH,
                "the GPU is " + gpus + ", and this rocm-canary is built for " + join(targets, " "),
                "install the build for this GPU"};
}

void require_fitting_gpu(const Topology &topology, const std::vector<std::string> &targets) {
  for (const std::string &gpu : topology.gpus)
    if (!fitting_target(targets, gpu).empty())
      return;
  refuse_arch(join(topology.gpus, ", "), targets);
}

int count_devices(const HipLibrary &hip, const Topology &topology) {
  int count = 0;
  hip.require_ok(hip.device_count(&count));
  if (count < 1)
    throw Failure{ROCM_CANARY_HIP_FAILED,
                  "HIP sees no GPU, the driver shows " + join(topology.gpus, ", "),
                  "look at ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and the rights to /dev/kfd and /dev/dri"};
  return count;
}

rocm_canary_device describe(const HipLibrary &hip, int device) {
  rocm_canary_device description{};
  hip.require_ok(hip.describe_device(device, &description));
  return description;
}

int choose_device(const HipLibrary &hip, int count, int wanted, const std::vector<std::string> &targets) {
  if (wanted >= count)
    throw Failure{ROCM_CANARY_USAGE,
                  "--device " + std::to_string(wanted) + ": HIP sees " + std::to_string(count) + " GPU(s)",
                  "take a number from 0 to " + std::to_string(count - 1)};
  const int first = wanted < 0 ? 0 : wanted;
  const int last = wanted < 0 ? count - 1 : wanted;
  std::vector<std::string> seen;
  for (int device = first; device <= last; ++device) {
    seen.push_back(printable(describe(hip, device).arch));
    if (!fitting_target(targets, seen.back()).empty())
      return device;
  }
  refuse_arch(join(seen, ", "), targets);
}

std::string version_text(int version) {
  return std::to_string(version / 10000000) + "." + std::to_string(version / 100000 % 100) + "." +
         std::to_string(version % 100000);
}

std::string decimal(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string left(const std::string &text, std::size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 0, ' ');
}

std::string right(const std::string &text, std::size_t width) {
  return std::string(text.size() < width ? width - text.size() : 0, ' ') + text;
}

} // namespace

RunResult run(const std::string &folder, const RunOptions &options) {
  const Info info = read_info(folder);
  const std::vector<std::string> &targets = targets_to_trust(info);
  const Topology topology = require_gpu();
  require_fitting_gpu(topology, targets);

  const HipLibrary hip(info.library);
  RunResult result{};
  hip.require_ok(hip.runtime_version(&result.runtime_version));
  result.device = choose_device(hip, count_devices(hip, topology), options.device, targets);
  result.description = describe(hip, result.device);
  result.target = fitting_target(targets, result.description.arch);

  const Lengths lengths = lengths_of(options.size);
  result.kernels.push_back(run_vector_add(hip, result.device, lengths.vector));
  result.kernels.push_back(run_reduce(hip, result.device, lengths.vector));
  result.kernels.push_back(run_matmul(hip, result.device, lengths.matrix));
  return result;
}

std::string run_text(const RunResult &result) {
  const rocm_canary_device &gpu = result.description;
  const double gib = static_cast<double>(gpu.memory_bytes) / (1 << 30);
  std::string text = std::string("rocm-canary ") + CANARY_VERSION + ", HIP runtime " +
                     version_text(result.runtime_version) + "\ndevice " + std::to_string(result.device) + ": " +
                     gpu.name + ", " + gpu.arch + ", waves of " + std::to_string(gpu.wavefront_size) +
                     " lanes, " + std::to_string(gpu.compute_units) + " compute units, " + decimal(gib, 1) +
                     " GiB; code for " + result.target + "\n";
  for (const KernelResult &kernel : result.kernels)
    text += "  " + left(kernel.name, 10) + "  " + left(kernel.work, 18) + "  " + right(decimal(kernel.rate, 3), 10) +
            " " + left(kernel.unit, 7) + "  equal to the CPU" + (kernel.matrix_cores ? ", matrix cores" : "") + "\n";
  return text;
}

JsonObject run_json(const RunResult &result) {
  const rocm_canary_device &gpu = result.description;
  std::vector<JsonObject> kernels;
  for (const KernelResult &kernel : result.kernels)
    kernels.push_back(JsonObject()
                          .add("name", kernel.name)
                          .add("work", kernel.work)
                          .add("seconds", kernel.seconds)
                          .add("rate", kernel.rate)
                          .add("unit", kernel.unit)
                          .add("matrix_cores", kernel.matrix_cores)
                          .add("equal_to_cpu", true));
  return JsonObject()
      .add("version", 1)
      .add("status", 0)
      .add("release", CANARY_VERSION)
      .add("hip_runtime_version", version_text(result.runtime_version))
      .add("device", JsonObject()
                         .add("number", result.device)
                         .add("name", std::string(gpu.name))
                         .add("arch", std::string(gpu.arch))
                         .add("wavefront_size", gpu.wavefront_size)
                         .add("compute_units", gpu.compute_units)
                         .add("memory_bytes", gpu.memory_bytes))
      .add("target", result.target)
      .add("kernels", kernels);
}

} // namespace canary

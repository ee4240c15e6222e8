#pragma once

#include "json.h"
#include "rocm_canary.h"

#include <string>
#include <vector>

namespace canary {

enum class Size { small, large };

struct RunOptions {
  int device = -1; // HIP's number; -1 takes the first GPU that the library holds code for
  Size size = Size::small;
};

struct KernelResult {
  std::string name; // "vector_add", "reduce", "matmul"
  std::string work; // for people: "1048576 floats"
  double seconds;   // mean of one launch
  double rate;      // in `unit`
  std::string unit; // "GB/s" or "TFLOP/s"
  bool matrix_cores = false;
};

struct RunResult {
  int device;
  rocm_canary_device description;
  std::string target; // of the baked ones, the one that the GPU took
  int runtime_version;
  std::vector<KernelResult> kernels;
};

// Looks for GPUs in /sys first, and loads the HIP runtime only where one fits the baked targets.
// Throws Failure with the status that says which of the steps failed.
RunResult run(const std::string &folder, const RunOptions &options);

std::string run_text(const RunResult &result);
JsonObject run_json(const RunResult &result);

} // namespace canary

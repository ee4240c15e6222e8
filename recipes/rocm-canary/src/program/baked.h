#pragma once

#include <string>
#include <vector>

namespace canary {

// The GPU code that a HIP library holds, as its file says.
struct BakedCode {
  std::vector<std::string> targets; // sorted, e.g. "gfx90a" or "gfx90a:xnack-"; empty where compressed
  int bundles = 0;                  // one a HIP translation unit
  std::string compression;          // of the bundles, e.g. "CCOB version 2, zstd"; empty where plain

  bool compressed() const { return !compression.empty(); }
};

// Reads the section .hip_fatbin of an x86-64 ELF file without loading it.
// Throws Failure (ROCM_CANARY_BROKEN_INSTALL) if the file is missing, cut short, no HIP library, or if its
// translation units were built for different GPUs.
BakedCode read_baked_code(const std::string &path);

// True if code for `baked` runs on a GPU that calls itself `device`; both are an arch with or without
// features ("gfx90a", "gfx90a:sramecc+:xnack-"). A feature that the device does not state fits.
bool target_fits(const std::string &baked, const std::string &device);

// The target among `baked` that fits `device`, or an empty string.
std::string fitting_target(const std::vector<std::string> &baked, const std::string &device);

} // namespace canary

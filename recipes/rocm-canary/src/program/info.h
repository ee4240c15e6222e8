#pragma once

#include "baked.h"
#include "json.h"

#include <string>
#include <vector>

namespace canary {

// librocm_canary.so for a program or library that lies in `folder`: beside it, or in ../lib.
// Throws Failure (ROCM_CANARY_BROKEN_INSTALL) if it is in neither place.
std::string find_library(const std::string &folder);

// What was built (baked into this program) and what lies on disk (read from the library).
struct Info {
  std::string library;
  BakedCode code;
  std::vector<std::string> declared_targets; // CMAKE_HIP_ARCHITECTURES of the build
};

Info read_info(const std::string &folder);

// The targets to compare a GPU with: what the library holds, or what the build declared where the library is
// compressed and does not tell.
const std::vector<std::string> &targets_to_trust(const Info &info);

std::string info_text(const Info &info);
JsonObject info_json(const Info &info);
std::string targets_text(const Info &info);

} // namespace canary

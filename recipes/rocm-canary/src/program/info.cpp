#include "info.h"

#include "build_info.h"
#include "failure.h"
#include "text.h"

#include <filesystem>

namespace canary {
namespace {

namespace fs = std::filesystem;

constexpr const char *library_name = "librocm_canary.so";

bool from_debian() { return std::string(CANARY_HIP_SDK) == "debian"; }

std::string rocm_release_text() {
  const std::string release = CANARY_ROCM_VERSION;
  if (!from_debian())
    return release;
  const std::string compiled = std::string("compiled with HIP ") + CANARY_HIP_HEADER_VERSION + " from Debian packages, ";
  if (release == "undeclared")
    return release + " (" + compiled + "not with a ROCm release)";
  return release + " (declared; " + compiled + "not with ROCm " + release + ")";
}

std::string targets_line(const Info &info) {
  if (info.code.compressed())
    return "compressed (" + info.code.compression + "), not decoded; the build declared " +
           join(info.declared_targets, " ");
  return join(info.code.targets, " ") + " (in each of " + std::to_string(info.code.bundles) +
         " offload bundles of the library)";
}

} // namespace

std::string find_library(const std::string &folder) {
  const fs::path beside = fs::path(folder) / library_name;
  const fs::path in_lib = fs::path(folder).parent_path() / "lib" / library_name;
  std::error_code error;
  for (const fs::path &candidate : {beside, in_lib})
    if (fs::exists(candidate, error))
      return candidate.string();
  throw Failure{ROCM_CANARY_BROKEN_INSTALL,
                std::string(library_name) + " is missing (looked for " + beside.string() + " and " + in_lib.string() +
                    ")",
                "install the package again"};
}

Info read_info(const std::string &folder) {
  Info info;
  info.library = find_library(folder);
  info.code = read_baked_code(info.library);
  info.declared_targets = split(CANARY_HIP_ARCHITECTURES, ' ');
  return info;
}

const std::vector<std::string> &targets_to_trust(const Info &info) {
  return info.code.compressed() ? info.declared_targets : info.code.targets;
}

std::string info_text(const Info &info) {
  return std::string("rocm-canary ") + CANARY_VERSION +
         "\n  library        " + info.library +
         "\n  baked targets  " + targets_line(info) +
         "\n  ROCm release   " + rocm_release_text() +
         "\n  HIP SDK        " + CANARY_HIP_SDK + ", headers " + CANARY_HIP_HEADER_VERSION +
         "\n  toolchain      " + CANARY_TOOLCHAIN +
         "\n  compilers      C++ " + CANARY_CXX_COMPILER + ", HIP " + CANARY_HIP_COMPILER +
         "\n  C++ flags      " + CANARY_CXX_FLAGS +
         "\n  HIP flags      " + CANARY_HIP_FLAGS + "\n";
}

JsonObject info_json(const Info &info) {
  JsonObject json;
  json.add("version", 1)
      .add("name", "rocm-canary")
      .add("release", CANARY_VERSION)
      .add("library", info.library)
      .add("targets", info.code.targets)
      .add("compressed", info.code.compressed())
      .add("compression", info.code.compression)
      .add("bundles", info.code.bundles)
      .add("declared_targets", info.declared_targets)
      .add("rocm_version", CANARY_ROCM_VERSION)
      .add("hip_sdk", CANARY_HIP_SDK)
      .add("hip_header_version", CANARY_HIP_HEADER_VERSION)
      .add("toolchain", CANARY_TOOLCHAIN)
      .add("cxx_compiler", CANARY_CXX_COMPILER)
      .add("hip_compiler", CANARY_HIP_COMPILER)
      .add("cxx_flags", CANARY_CXX_FLAGS)
      .add("hip_flags", CANARY_HIP_FLAGS);
  return json;
}

std::string targets_text(const Info &info) {
  return info.code.compressed() ? std::string("compressed\n") : join(info.code.targets, "\n") + "\n";
}

} // namespace canary

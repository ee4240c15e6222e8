#include "kfd.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace canary {
namespace {

namespace fs = std::filesystem;

constexpr const char *kernel_folder = "/sys/class/kfd/kfd/topology";
constexpr const char *folder_variable = "ROCM_CANARY_KFD_TOPOLOGY";

std::vector<long> node_numbers(const fs::path &nodes) {
  std::vector<long> numbers;
  std::error_code error;
  for (fs::directory_iterator entry(nodes, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos && name.size() < 10)
      numbers.push_back(std::stol(name));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// -1 where the file cannot be read; 0 for a node without a GPU (a CPU has gfx_target_version 0).
long target_version(const fs::path &properties) {
  std::ifstream file(properties);
  if (!file)
    return -1;
  std::string name;
  long value = 0;
  bool any = false;
  while (file >> name >> value) {
    any = true;
    if (name == "gfx_target_version")
      return value;
  }
  return any ? 0 : -1;
}

} // namespace

std::string arch_of_target_version(long version) {
  char arch[64];
  std::snprintf(arch, sizeof arch, "gfx%ld%lx%lx", version / 10000, static_cast<unsigned long>(version / 100 % 100),
                static_cast<unsigned long>(version % 100));
  return arch;
}

Topology read_topology() {
  const char *given = std::getenv(folder_variable);
  Topology topology;
  topology.folder = given != nullptr && *given != '\0' ? given : kernel_folder;

  const fs::path nodes = fs::path(topology.folder) / "nodes";
  std::error_code error;
  topology.present = fs::is_directory(nodes, error);
  for (const long node : node_numbers(nodes)) {
    const fs::path properties = nodes / std::to_string(node) / "properties";
    const long version = target_version(properties);
    if (version < 0)
      topology.unread.push_back(properties.string());
    else if (version > 0)
      topology.gpus.push_back(arch_of_target_version(version));
  }
  return topology;
}

} // namespace canary

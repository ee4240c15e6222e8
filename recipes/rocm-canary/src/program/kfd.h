#pragma once

#include <string>
#include <vector>

namespace canary {

// What the amdgpu driver says of this host's GPUs, read from /sys without any ROCm library.
struct Topology {
  std::string folder;              // /sys/class/kfd/kfd/topology, or ROCM_CANARY_KFD_TOPOLOGY
  bool present = false;            // the folder exists: the driver is loaded and visible here
  std::vector<std::string> gpus;   // the arch of each GPU ("gfx90a"), in the order of the nodes
  std::vector<std::string> unread; // nodes whose properties this user may not read
};

Topology read_topology();

// The arch that KFD's gfx_target_version (10000 * major + 100 * minor + stepping) names: 90402 is gfx942.
std::string arch_of_target_version(long version);

} // namespace canary

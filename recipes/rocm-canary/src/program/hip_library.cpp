#include "hip_library.h"

#include "build_info.h"
#include "failure.h"
#include "text.h"

#include <dlfcn.h>
#include <unistd.h>

namespace canary {
namespace {

std::string loader_error() {
  const char *text = dlerror();
  return text != nullptr ? printable(text) : "the loader gives no reason";
}

std::string rocm_name() {
  const std::string release = CANARY_ROCM_VERSION;
  return release == "undeclared" ? "ROCm" : "ROCm " + release;
}

template <class Function> void bind(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    throw Failure{ROCM_CANARY_BROKEN_INSTALL, loader_error(), "install the package again"};
}

std::string advice_for_hip_error() {
  if (access("/dev/kfd", R_OK | W_OK) != 0)
    return "this user cannot open /dev/kfd: give the user the groups render and video, or the container "
           "--device /dev/kfd --device /dev/dri";
  return "look at the kernel log (dmesg) for messages of amdgpu, and at `rocminfo`";
}

} // namespace

HipLibrary::HipLibrary(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw Failure{ROCM_CANARY_NO_RUNTIME, "the HIP runtime cannot be loaded: " + loader_error(),
                  "install " + rocm_name() + ", or set LD_LIBRARY_PATH to the folder of its libamdhip64"};
  bind(library, "rocm_canary_last_error", last_error);
  bind(library, "rocm_canary_runtime_version", runtime_version);
  bind(library, "rocm_canary_device_count", device_count);
  bind(library, "rocm_canary_describe_device", describe_device);
  bind(library, "rocm_canary_vector_add", vector_add);
  bind(library, "rocm_canary_reduce", reduce);
  bind(library, "rocm_canary_matmul", matmul);
  bind(library, "rocm_canary_reference_vector_add", reference_vector_add);
  bind(library, "rocm_canary_reference_reduce", reference_reduce);
  bind(library, "rocm_canary_reference_matmul", reference_matmul);
}

void HipLibrary::require_ok(int status) const {
  if (status == ROCM_CANARY_OK)
    return;
  throw Failure{static_cast<rocm_canary_status>(status), printable(last_error()),
                status == ROCM_CANARY_HIP_FAILED ? advice_for_hip_error() : ""};
}

} // namespace canary

#include "probe.h"

#include "command.h"

#include <dlfcn.h>

#include <filesystem>

namespace {

thread_local canary::Answer last_answer;

std::string own_folder() {
  Dl_info self{};
  dladdr(reinterpret_cast<void *>(&rocm_canary_probe_info), &self);
  return std::filesystem::path(self.dli_fname).parent_path().string();
}

template <class Ask> int answer(const char **output, const char **error, Ask &&ask) noexcept {
  try {
    last_answer = ask();
  } catch (const std::exception &failure) {
    last_answer = {static_cast<rocm_canary_status>(1), {}, failure.what()};
  }
  *output = last_answer.output.c_str();
  *error = last_answer.error.c_str();
  return last_answer.status;
}

} // namespace

int rocm_canary_probe_info(const char **output, const char **error) {
  return answer(output, error, [] { return canary::info_answer(own_folder(), canary::InfoForm::json); });
}

int rocm_canary_probe_run(int device, int large, const char **output, const char **error) {
  return answer(output, error, [=] {
    const canary::RunOptions options{device, large != 0 ? canary::Size::large : canary::Size::small};
    return canary::run_answer(own_folder(), options, true);
  });
}

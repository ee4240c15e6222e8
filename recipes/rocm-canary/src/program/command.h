#pragma once

#include "rocm_canary.h"
#include "run.h"

#include <string>

namespace canary {

// What a command says: `output` for standard output, `error` (one line) where it failed.
struct Answer {
  rocm_canary_status status;
  std::string output;
  std::string error;
};

enum class InfoForm { text, json, targets };

// `folder` is where the program or library lies that asks; see find_library().
Answer info_answer(const std::string &folder, InfoForm form);
Answer run_answer(const std::string &folder, const RunOptions &options, bool json);

} // namespace canary

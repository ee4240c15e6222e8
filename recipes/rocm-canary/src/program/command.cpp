#include "command.h"

#include "failure.h"
#include "info.h"

namespace canary {

Answer info_answer(const std::string &folder, InfoForm form) {
  try {
    const Info info = read_info(folder);
    switch (form) {
    case InfoForm::json:
      return {ROCM_CANARY_OK, info_json(info).str() + "\n", {}};
    case InfoForm::targets:
      return {ROCM_CANARY_OK, targets_text(info), {}};
    case InfoForm::text:
      break;
    }
    return {ROCM_CANARY_OK, info_text(info), {}};
  } catch (const Failure &failure) {
    return {failure.status, {}, failure.line()};
  }
}

Answer run_answer(const std::string &folder, const RunOptions &options, bool json) {
  try {
    const RunResult result = run(folder, options);
    return {ROCM_CANARY_OK, json ? run_json(result).str() + "\n" : run_text(result), {}};
  } catch (const Failure &failure) {
    const JsonObject report = JsonObject()
                                  .add("version", 1)
                                  .add("status", static_cast<int>(failure.status))
                                  .add("error", failure.what)
                                  .add("advice", failure.advice);
    return {failure.status, json ? report.str() + "\n" : std::string(), failure.line()};
  }
}

} // namespace canary

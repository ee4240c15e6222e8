#pragma once

#include "rocm_canary.h"

#include <string>

namespace canary {

// Ends a command: `status` is the exit code, `what` is wrong, `advice` is what to do next.
struct Failure {
  rocm_canary_status status;
  std::string what;
  std::string advice;

  std::string line() const { return advice.empty() ? what : what + "; " + advice; }
};

} // namespace canary

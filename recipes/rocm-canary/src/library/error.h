#pragma once

#include "rocm_canary.h"

#include <exception>
#include <string>
#include <utility>

namespace canary {

// Ends a call of the C API: the status it returns and what rocm_canary_last_error() says.
struct Failure {
  rocm_canary_status status;
  std::string what;
};

void remember_error(std::string what);

// Runs the body of a C API function: no exception may cross into C.
template <class Body> int guarded(Body &&body) noexcept {
  try {
    std::forward<Body>(body)();
    return ROCM_CANARY_OK;
  } catch (const Failure &failure) {
    remember_error(failure.what);
    return failure.status;
  } catch (const std::exception &error) {
    remember_error(error.what());
    return ROCM_CANARY_HIP_FAILED;
  }
}

} // namespace canary

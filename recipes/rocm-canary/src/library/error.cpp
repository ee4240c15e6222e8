#include "error.h"

#include "build_info.h"

namespace canary {
namespace {
thread_local std::string last_error;
}

void remember_error(std::string what) { last_error = std::move(what); }

} // namespace canary

const char *rocm_canary_version(void) { return CANARY_VERSION; }

const char *rocm_canary_last_error(void) { return canary::last_error.c_str(); }

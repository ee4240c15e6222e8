/*
 * librocm_canary_probe.so of the wheel: the program's commands for callers that load libraries, such as
 * Python's ctypes. It does not load HIP before `run` has found a GPU that fits.
 */
#pragma once

#include "rocm_canary.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Both return a rocm_canary_status and set *output (a JSON object, or "") and *error (one line, or "").
 * The texts belong to the calling thread and last until its next call.
 */
ROCM_CANARY_API int rocm_canary_probe_info(const char **output, const char **error);

/* device: HIP's number, or -1 for the first GPU that fits; large: 0 or 1, see `rocm-canary --help` */
ROCM_CANARY_API int rocm_canary_probe_run(int device, int large, const char **output, const char **error);

#ifdef __cplusplus
}
#endif

/*
 * C API of librocm_canary.so: three small GPU computations and their CPU references.
 *
 * Loading the library loads the HIP runtime (libamdhip64). Who must first find out whether there is one
 * runs the program `rocm-canary`, which reads the library as a file and loads it last.
 *
 * Functions return a rocm_canary_status. After any other value than ROCM_CANARY_OK,
 * rocm_canary_last_error() says what went wrong in the calling thread.
 * All pointers are host pointers; matrices are dense and row-major.
 */
#ifndef ROCM_CANARY_H
#define ROCM_CANARY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ROCM_CANARY_API __attribute__((visibility("default")))
#else
#define ROCM_CANARY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The exit codes of the program `rocm-canary` as well. */
typedef enum rocm_canary_status {
  ROCM_CANARY_OK = 0,
  ROCM_CANARY_USAGE = 2,          /* an argument that makes no sense */
  ROCM_CANARY_NO_GPU = 3,         /* this host shows no AMD GPU */
  ROCM_CANARY_OTHER_ARCH = 4,     /* the library holds no code for this GPU */
  ROCM_CANARY_NO_RUNTIME = 5,     /* the HIP runtime cannot be loaded */
  ROCM_CANARY_HIP_FAILED = 6,     /* a HIP call returned an error */
  ROCM_CANARY_WRONG_RESULT = 7,   /* GPU and CPU disagree */
  ROCM_CANARY_BROKEN_INSTALL = 8, /* the library is missing, cut short or not a library */
} rocm_canary_status;

typedef struct rocm_canary_device {
  char name[256];
  char arch[256]; /* as HIP names it, with features: "gfx90a:sramecc+:xnack-" */
  int wavefront_size;
  int compute_units;
  uint64_t memory_bytes;
} rocm_canary_device;

ROCM_CANARY_API const char *rocm_canary_version(void);
ROCM_CANARY_API const char *rocm_canary_last_error(void);

/* HIP's own version number: 10000000 * major + 100000 * minor + patch. */
ROCM_CANARY_API int rocm_canary_runtime_version(int *version);
ROCM_CANARY_API int rocm_canary_device_count(int *count);
ROCM_CANARY_API int rocm_canary_describe_device(int device, rocm_canary_device *description);

/*
 * The computations. `seconds`, where it is not NULL, receives the mean time of one launch, measured with
 * events over several launches after a warm-up, without the copies to and from the GPU.
 */

/* sum[i] = a[i] + b[i] for i < count */
ROCM_CANARY_API int rocm_canary_vector_add(int device, const float *a, const float *b, float *sum,
                                           size_t count, double *seconds);

/* *sum = values[0] + ... + values[count - 1], added up in double precision */
ROCM_CANARY_API int rocm_canary_reduce(int device, const float *values, size_t count, double *sum,
                                       double *seconds);

/*
 * c (rows x columns) = a (rows x depth) * b (depth x columns).
 * *matrix_cores, where it is not NULL, becomes 1 if the code that ran uses MFMA instructions, else 0.
 */
ROCM_CANARY_API int rocm_canary_matmul(int device, const float *a, const float *b, float *c, int rows,
                                       int columns, int depth, int *matrix_cores, double *seconds);

/* The same on the CPU; these need no GPU. */
ROCM_CANARY_API void rocm_canary_reference_vector_add(const float *a, const float *b, float *sum,
                                                      size_t count);
ROCM_CANARY_API void rocm_canary_reference_reduce(const float *values, size_t count, double *sum);
ROCM_CANARY_API void rocm_canary_reference_matmul(const float *a, const float *b, float *c, int rows,
                                                  int columns, int depth);

#ifdef __cplusplus
}
#endif

#endif

#include "rocm_canary.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace {

void multiply_rows(const float *a, const float *b, float *c, int first_row, int last_row, int columns,
                   int depth) {
  for (int row = first_row; row < last_row; ++row) {
    float *c_row = c + static_cast<std::size_t>(row) * columns;
    std::fill(c_row, c_row + columns, 0.0f);
    for (int k = 0; k < depth; ++k) {
      const float factor = a[static_cast<std::size_t>(row) * depth + k];
      const float *b_row = b + static_cast<std::size_t>(k) * columns;
      for (int column = 0; column < columns; ++column)
        c_row[column] += factor * b_row[column];
    }
  }
}

} // namespace

void rocm_canary_reference_vector_add(const float *a, const float *b, float *sum, size_t count) {
  for (size_t i = 0; i < count; ++i)
    sum[i] = a[i] + b[i];
}

void rocm_canary_reference_reduce(const float *values, size_t count, double *sum) {
  double total = 0.0;
  for (size_t i = 0; i < count; ++i)
    total += values[i];
  *sum = total;
}

void rocm_canary_reference_matmul(const float *a, const float *b, float *c, int rows, int columns,
                                  int depth) {
  const int workers = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 64);
  const int share = (rows + workers - 1) / workers;
  std::vector<std::thread> threads;
  for (int first = 0; first < rows; first += share)
    threads.emplace_back(multiply_rows, a, b, c, first, std::min(first + share, rows), columns, depth);
  for (std::thread &thread : threads)
    thread.join();
}

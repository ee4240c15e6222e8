#pragma once

#include <cstddef>

// The CDNA GPUs, whose matrix cores take v_mfma_f32_16x16x4f32.
#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
#define CANARY_MFMA 1
#else
#define CANARY_MFMA 0
#endif

namespace canary {

constexpr int matmul_threads = 256;
constexpr int tile = 64;  // rows and columns of C that one block computes
constexpr int slice = 16; // columns of A, rows of B, that one step keeps in LDS

// The padding spreads the reads of one wave over the LDS banks.
struct Slices {
  float a[tile][slice + 1];
  float b[slice][tile + 16];
};

struct Product {
  const float *a; // rows x depth
  const float *b; // depth x columns
  float *c;       // rows x columns
  int rows, columns, depth;

  __device__ float a_at(int row, int k) const {
    return row < rows && k < depth ? a[static_cast<std::size_t>(row) * depth + k] : 0.0f;
  }
  __device__ float b_at(int k, int column) const {
    return k < depth && column < columns ? b[static_cast<std::size_t>(k) * columns + column] : 0.0f;
  }
  __device__ void store(int row, int column, float value) const {
    if (row < rows && column < columns)
      c[static_cast<std::size_t>(row) * columns + column] = value;
  }
};

__device__ inline void load_slices(const Product &product, int first_row, int first_column, int first_k,
                                   Slices &slices) {
  for (int i = static_cast<int>(threadIdx.x); i < tile * slice; i += matmul_threads) {
    slices.a[i / slice][i % slice] = product.a_at(first_row + i / slice, first_k + i % slice);
    slices.b[i / tile][i % tile] = product.b_at(first_k + i / tile, first_column + i % tile);
  }
}

#if CANARY_MFMA

// Four waves of 64 lanes share the tile; each computes 32 x 32 of it as 2 x 2 fragments of 16 x 16.
// v_mfma_f32_16x16x4f32: lane l gives A[l % 16][l / 16] and B[l / 16][l % 16],
// and receives D[4 * (l / 16) + r][l % 16] in register r (AMD's CDNA instruction set manuals).
class TileProduct {
  using Fragment = float __attribute__((vector_size(16)));
  static constexpr int side = 16;
  static constexpr int k_of_one_instruction = 4;

  Fragment sums[2][2] = {};
  int x, y; // l % 16 and l / 16
  int wave_row, wave_column;

public:
  __device__ TileProduct() {
    const int lane = static_cast<int>(threadIdx.x) % 64;
    const int wave = static_cast<int>(threadIdx.x) / 64;
    x = lane % side;
    y = lane / side;
    wave_row = wave / 2 * 2 * side;
    wave_column = wave % 2 * 2 * side;
  }

  __device__ void add(const Slices &slices) {
    // Every lane must make the same steps: MFMA takes part of each operand from each lane of the wave.
    for (int step = 0; step < slice; step += k_of_one_instruction) {
      const int k = step + y;
      const float a[2] = {slices.a[wave_row + x][k], slices.a[wave_row + side + x][k]};
      const float b[2] = {slices.b[k][wave_column + x], slices.b[k][wave_column + side + x]};
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
          sums[i][j] = __builtin_amdgcn_mfma_f32_16x16x4f32(a[i], b[j], sums[i][j], 0, 0, 0);
    }
  }

  __device__ void store(const Product &product, int first_row, int first_column) const {
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j)
        for (int r = 0; r < 4; ++r)
          product.store(first_row + wave_row + i * side + 4 * y + r,
                        first_column + wave_column + j * side + x, sums[i][j][r]);
  }
};

#else

// Each thread computes 4 x 4 of the tile with the vector units.
class TileProduct {
  static constexpr int side = 4;

  float sums[side][side] = {};
  int row, column;

public:
  __device__ TileProduct() {
    row = static_cast<int>(threadIdx.x) / (tile / side) * side;
    column = static_cast<int>(threadIdx.x) % (tile / side) * side;
  }

  __device__ void add(const Slices &slices) {
    for (int k = 0; k < slice; ++k)
      for (int i = 0; i < side; ++i)
        for (int j = 0; j < side; ++j)
          sums[i][j] += slices.a[row + i][k] * slices.b[k][column + j];
  }

  __device__ void store(const Product &product, int first_row, int first_column) const {
    for (int i = 0; i < side; ++i)
      for (int j = 0; j < side; ++j)
        product.store(first_row + row + i, first_column + column + j, sums[i][j]);
  }
};

#endif

// Grid: ceil(columns / tile) x ceil(rows / tile) blocks of matmul_threads threads.
__global__ void matmul(Product product, int *matrix_cores) {
  __shared__ Slices slices;
  const int first_row = static_cast<int>(blockIdx.y) * tile;
  const int first_column = static_cast<int>(blockIdx.x) * tile;

  TileProduct tile_product;
  for (int first_k = 0; first_k < product.depth; first_k += slice) {
    load_slices(product, first_row, first_column, first_k, slices);
    __syncthreads();
    tile_product.add(slices);
    __syncthreads();
  }
  tile_product.store(product, first_row, first_column);

  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
    *matrix_cores = CANARY_MFMA;
}

} // namespace canary

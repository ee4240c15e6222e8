#include <torch/torch.h>

int main() {
  // On the CPU: a build host has no GPU.
  return torch::ones({2, 2}).sum().item<float>() == 4.0f ? 0 : 1;
}

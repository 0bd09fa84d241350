#pragma once
// The check as a process: the probe's report of the GPU, then the products, while the probe's context is there. A
// deadline for every stage; SIGTERM and SIGINT end it between products.
#include <cstdio>
#include <string>

#include "base/time.h"
#include "gemm-check/gemm.h"

namespace tranche::gemm_check {

struct CheckOptions {
  std::string device;  // "" = the first visible; an index or a UUID
  GemmOptions gemm{.shapes = default_gemm_shapes(), .types = default_gemm_types(), .cublas = {}, .driver_root = {}};
  bool json = false;
  Duration deadline = std::chrono::seconds(30);  // for each stage; passing it ends the process
};

// 0 = all products that could be checked are right, 1 = CUDA failed or something is wrong, 2 = a device that is not
// there, 3 = no product could be checked. Blocks SIGTERM and SIGINT in the calling thread; call it from the process's
// only thread.
int check_main(const CheckOptions& options, std::FILE* out, std::FILE* err);

}  // namespace tranche::gemm_check

#pragma once
// cuBLAS, looked for and opened at run time. It is no part of the driver: an image for CUDA programs brings it, or the
// toolkit on the node. Never closed. One thread.
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gemm-check/cublas_abi.h"

namespace tranche::gemm_check {

struct CublasPlaces {
  std::string path;                   // --cublas: a library or its directory; then nothing else is tried
  std::string library_path;           // LD_LIBRARY_PATH
  std::string driver_root;            // "" = none beside /
  std::vector<std::string> toolkits;  // "/usr/local/cuda", "/usr/local/cuda-13.0" …
};

// Where this machine may have it: the environment, and the toolkits under /usr/local of it and of `driver_root`.
CublasPlaces cublas_places(const std::string& path, const std::string& driver_root);

// The files to try, newest version first within a directory; a name without a directory is the loader's to find. Pure.
std::vector<std::string> cublas_candidates(const CublasPlaces& places);

class CublasLibrary {
 public:
  // kNotFound when no candidate opens: the error says what was tried and what to install.
  static Result<std::unique_ptr<CublasLibrary>> open(const CublasPlaces& places);
  const CublasFunctions& functions() const { return functions_; }
  const std::string& path() const { return path_; }
  std::string name_of(int status) const;  // "CUBLAS_STATUS_NOT_SUPPORTED"

 private:
  CublasFunctions functions_;
  const char* (*status_name_)(int) = nullptr;
  std::string path_;
};

}  // namespace tranche::gemm_check

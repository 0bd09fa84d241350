#pragma once
// What the CUDA driver's error numbers mean for the owner of a program that shares a GPU, and what to do about them.
// Facts: docs/reference/probe.md. Pure.
#include <span>

#include "base/result.h"

namespace tranche::probe {

struct CudaErrorText {
  int code;
  Kind kind;
  const char* name;
  const char* meaning;
  const char* remedy;
};

const CudaErrorText* explain(int code);  // nullptr = nothing to say beyond its name
std::span<const CudaErrorText> all_explained();

}  // namespace tranche::probe

#pragma once
// The fuzz targets of one program; the table itself is written by cmake/tranche.cmake.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

struct FuzzTarget {
  std::string_view name;
  int (*run)(const std::uint8_t* data, std::size_t size);
};
const std::vector<FuzzTarget>& fuzz_targets();

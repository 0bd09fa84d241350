#pragma once
// Files of the source tree for golden tests. ctest sets TRANCHE_SOURCE; UPDATE_GOLDEN=1 rewrites expected files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tranche::golden {

inline std::filesystem::path source(const std::string& path) {
  const char* root = std::getenv("TRANCHE_SOURCE");
  return std::filesystem::path(root != nullptr ? root : ".") / path;
}

inline std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path << " cannot be read";
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void compare(const std::filesystem::path& expected, const std::string& actual) {
  if (const char* update = std::getenv("UPDATE_GOLDEN"); update != nullptr && std::string_view(update) == "1") {
    std::ofstream(expected, std::ios::binary) << actual;
    return;
  }
  EXPECT_EQ(read(expected), actual) << expected << " differs; UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace tranche::golden

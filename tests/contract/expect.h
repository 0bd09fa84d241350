#pragma once
// Unwraps a Result in a test: the value, or a failure with the Error's text and the end of the test.
#include <gtest/gtest.h>

#include "base/result.h"

#define ASSERT_OK(result)                                                             \
  do {                                                                                \
    const auto& assert_ok_result = (result);                                          \
    ASSERT_TRUE(assert_ok_result.has_value()) << to_string(assert_ok_result.error()); \
  } while (false)

// ASSERT_VALUE(auto x, f()) declares x from f()'s value.
#define ASSERT_VALUE_IMPL(tmp, decl, ...)                 \
  auto tmp = (__VA_ARGS__);                               \
  ASSERT_TRUE(tmp.has_value()) << to_string(tmp.error()); \
  decl = *std::move(tmp)
#define ASSERT_VALUE(decl, ...) ASSERT_VALUE_IMPL(TRANCHE_CONCAT(assert_value_, __LINE__), decl, __VA_ARGS__)

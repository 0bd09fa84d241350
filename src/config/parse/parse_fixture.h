#pragma once
// For tests: what a text of a configuration is read as, and what is said about it.
#include <gtest/gtest.h>

#include "config/parse/parse.h"

namespace tranche::config::fixture {

inline std::vector<std::string> texts_of(const std::vector<Problem>& problems) {
  std::vector<std::string> texts;
  for (const Problem& problem : problems) texts.push_back(to_string(problem));
  return texts;
}
inline std::vector<std::string> said(std::string_view text, UnknownKeys unknown = UnknownKeys::kWarned) {
  return texts_of(parse(text, "c", unknown).problems);
}
inline bool refused(std::string_view text) {
  return has_error(parse(text, "c").problems);
}
inline Config accepted(std::string_view text) {
  const Parsed parsed = parse(text, "c");
  for (const Problem& problem : parsed.problems)
    if (problem.severity == Severity::kError) ADD_FAILURE() << text << "\n" << to_string(problem);
  return parsed.config;
}

}  // namespace tranche::config::fixture

#pragma once
// The Problems of one input, bounded as they are added: a file of one megabyte can have 300,000 of them, and they go
// into logs, status documents and events. The list keeps the first 100; later errors replace the last warnings; the
// rest is counted. Texts of a Problem are cut at 1,000 bytes, because they may quote the input. One thread.
#include <string>
#include <vector>

#include "base/problem.h"

namespace tranche {

class ProblemList {
 public:
  static constexpr std::size_t kMost = 100;

  void add(Problem problem);
  // Whether add() would only count a Problem of this severity, so that the caller need not create its text.
  bool full(Severity severity) const {
    return problems_.size() >= kMost && (severity == Severity::kWarning || errors_ >= kMost);
  }
  bool over() const { return rest_errors_ > 0; }  // an error was only counted: a reader can stop
  bool has_error() const { return errors_ > 0; }
  void sort_by_place();
  // If Problems were dropped, the last one counts them and has no place.
  std::vector<Problem> take();

 private:
  std::vector<Problem> problems_;
  std::size_t errors_ = 0;  // of problems_
  std::size_t rest_errors_ = 0;
  std::size_t rest_warnings_ = 0;
};

std::vector<Problem> bounded(std::vector<Problem> problems);
void bound_notes(std::vector<std::string>& notes);  // keeps the first 100, and adds one that counts the rest

}  // namespace tranche

#pragma once
// A Problem is a fault in a person's input (a configuration file, a flag, a variable, a simulator profile): what is
// wrong, where, and what to write instead. Parsers report all Problems of an input, not only the first.
#include <string>
#include <string_view>
#include <vector>

namespace tranche {

enum class Severity { kWarning, kError };

// A position in a person's input. line and column count from 1; 0 means the whole input, as for flags and variables.
struct Place {
  std::string source;  // file name, "--mig-strategy", "$MIG_STRATEGY"
  int line = 0;
  int column = 0;

  friend bool operator==(const Place&, const Place&) = default;
};

struct Problem {
  Severity severity = Severity::kError;
  Place place;
  std::string path;    // the field, as people write it: "sharing.mps.resources[0].replicas"
  std::string what;    // "must be a whole number, but is \"four\""
  std::string remedy;  // "write for example: replicas: 4"

  friend bool operator==(const Problem&, const Problem&) = default;
};

// An error, or a warning, in an input as a whole: a flag, a file, an object of the cluster.
Problem error_in(std::string source, std::string what, std::string remedy);
Problem warning_in(std::string source, std::string what, std::string remedy);

std::string to_string(const Place& place);      // "config.yaml:14:7"
std::string to_string(const Problem& problem);  // "config.yaml:14:7: error: sharing…: must be …; write …"
bool has_error(const std::vector<Problem>& problems);

// The Problems of one input, bounded as they are added: a file of one megabyte can have 300,000 of them, and they go
// into logs, status documents and events. The list keeps the first 100; later errors replace the last warnings; the
// rest is counted. Texts of a Problem are cut at 1,000 bytes, because they may quote the input. One thread.
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

// The candidate closest to `word` by edit distance, or "" if none is close enough.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace tranche

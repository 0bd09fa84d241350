#include "base/problem_list.h"

#include <algorithm>
#include <tuple>

#include "base/utf8.h"

namespace tranche {
namespace {

constexpr std::size_t kLongestText = 1000;

void cut(std::string& text) {
  if (text.size() > kLongestText) text = cut_text(text, kLongestText);
}

}  // namespace

void ProblemList::add(Problem problem) {
  const bool error = problem.severity == Severity::kError;
  if (full(problem.severity)) {
    ++(error ? rest_errors_ : rest_warnings_);
    return;
  }
  if (problems_.size() >= kMost) {
    const auto is_warning = [](const Problem& p) { return p.severity == Severity::kWarning; };
    problems_.erase(std::find_if(problems_.rbegin(), problems_.rend(), is_warning).base() - 1);
    ++rest_warnings_;
  }
  cut(problem.path);
  cut(problem.what);
  cut(problem.remedy);
  errors_ += error ? 1 : 0;
  problems_.push_back(std::move(problem));
}

void ProblemList::sort_by_place() {
  std::ranges::stable_sort(problems_, {}, [](const Problem& p) { return std::tuple(p.place.line, p.place.column); });
}

std::vector<Problem> ProblemList::take() {
  const std::size_t rest = rest_errors_ + rest_warnings_;
  if (rest > 0) {
    problems_.push_back({rest_errors_ > 0 ? Severity::kError : Severity::kWarning,
                         {problems_.front().place.source, 0, 0},
                         {},
                         "… and at least " + std::to_string(rest) + " more problems (" + std::to_string(rest_errors_) +
                             " of them errors)",
                         "correct the ones listed, then look again"});
  }
  return std::move(problems_);
}

std::vector<Problem> bounded(std::vector<Problem> problems) {
  ProblemList list;
  for (auto& problem : problems) list.add(std::move(problem));
  return list.take();
}

void bound_notes(std::vector<std::string>& notes) {
  if (notes.size() <= ProblemList::kMost) return;
  const std::string rest = "… and " + std::to_string(notes.size() - ProblemList::kMost) + " more notes";
  notes.resize(ProblemList::kMost);
  notes.push_back(rest);
}

}  // namespace tranche

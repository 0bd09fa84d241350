#include "base/problem.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/text.h"

namespace tranche {
namespace {

// Ignores the case of letters.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (to_lower(a[i - 1]) == to_lower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

constexpr std::size_t kLongestText = 1000;

void cut(std::string& text) {
  if (text.size() > kLongestText) text = cut_text(text, kLongestText);
}

}  // namespace

Problem error_in(std::string source, std::string what, std::string remedy) {
  return {Severity::kError, {std::move(source)}, "", std::move(what), std::move(remedy)};
}

Problem warning_in(std::string source, std::string what, std::string remedy) {
  return {Severity::kWarning, {std::move(source)}, "", std::move(what), std::move(remedy)};
}

std::string to_string(const Place& place) {
  std::string text = place.source;
  if (place.line > 0) text += ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
  return text;
}

// Paths and remedies may hold keys and values of the configuration; the text goes to terminals, logs and events.
std::string to_string(const Problem& problem) {
  std::string text = to_string(problem.place);
  if (!text.empty()) text += ": ";
  text += problem.severity == Severity::kError ? "error: " : "warning: ";
  if (!problem.path.empty()) text += problem.path + ": ";
  text += problem.what;
  if (!problem.remedy.empty()) text += "; " + problem.remedy;
  return visible_text(text);
}

bool has_error(const std::vector<Problem>& problems) {
  return std::ranges::any_of(problems, [](const Problem& p) { return p.severity == Severity::kError; });
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr std::size_t kLongestWord = 64;
  if (word.empty() || word.size() > kLongestWord) return {};
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const auto candidate : candidates) {
    if (const auto distance = edit_distance(word, candidate); distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return std::string(best);
}

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

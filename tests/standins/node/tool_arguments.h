#pragma once
// The words of one sim-node command, consumed from the front; options (--name value) may be anywhere. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tranche::sim {

class ToolArguments {
 public:
  // Options must be in the list of names; fault() keeps the first error.
  ToolArguments(const std::vector<std::string>& words, const std::vector<std::string_view>& known_options);

  std::optional<std::string> next();        // absent if there are no more
  std::string need(std::string_view what);  // an error if there are no more
  std::uint64_t need_number(std::string_view what, std::uint64_t most);
  std::uint64_t need_bytes(std::string_view what);
  std::string option(std::string_view name, std::string otherwise = "") const;
  std::uint64_t option_number(std::string_view name, std::uint64_t most, std::uint64_t otherwise);
  bool empty() const { return at_ >= plain_.size(); }
  // True if all words were valid and consumed: check this before acting, so that an invalid command changes nothing.
  bool done();

  void fail(std::string fault);
  const std::string& fault() const { return fault_; }

 private:
  std::vector<std::string> plain_;
  std::vector<std::pair<std::string, std::string>> options_;
  std::size_t at_ = 0;
  std::string fault_;
};

}  // namespace tranche::sim

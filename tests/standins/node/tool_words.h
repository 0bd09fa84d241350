#pragma once
// The words of one sim-node command, taken from the front; options (--name value) may stand anywhere. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tranche::sim {

class Words {
 public:
  // Options must be known by name; the first fault stays in fault().
  Words(const std::vector<std::string>& words, const std::vector<std::string_view>& known_options);

  std::optional<std::string> next();        // nothing when there are no more
  std::string need(std::string_view what);  // a fault when there are no more
  std::uint64_t need_number(std::string_view what, std::uint64_t most);
  std::uint64_t need_bytes(std::string_view what);
  std::string option(std::string_view name, std::string otherwise = "") const;
  std::uint64_t option_number(std::string_view name, std::uint64_t most, std::uint64_t otherwise);
  bool empty() const { return at_ >= plain_.size(); }
  // All words understood and none left over: ask before acting, so that a mistake changes nothing.
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

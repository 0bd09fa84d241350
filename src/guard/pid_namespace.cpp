#include "guard/pid_namespace.h"

#include "base/text.h"

namespace tranche::guard {

// proc(5): "NSpid:" lists the process id in each namespace, from the reader's inwards. A single number is the init of
// the reader's own namespace, or another process in it.
bool is_first_of_namespace(std::string_view status) {
  constexpr std::string_view kKey = "NSpid:";
  for (const auto line : lines_of(status)) {
    if (!line.starts_with(kKey)) continue;
    const auto pids = words_of(line.substr(kKey.size()));
    return pids.size() > 1 && pids.back() == "1";
  }
  return false;
}

}  // namespace tranche::guard

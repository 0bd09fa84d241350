#include "mps/protocol/other_holders.h"

#include "base/text.h"
#include "mps/protocol/grant_limits.h"

namespace tranche::mps {

std::string render_other_holders(const std::set<std::string>& devices) {
  std::string text;
  for (const auto& device : devices) text += device + "\n";
  return text;
}

std::set<std::string> parse_other_holders(std::string_view text) {
  std::set<std::string> devices;
  for (const auto line : lines_of(text))
    if (is_device_name(line)) devices.emplace(line);
  return devices;
}

}  // namespace tranche::mps

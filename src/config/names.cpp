#include "config/names.h"

#include <algorithm>

#include "base/text.h"

namespace tranche::config {
namespace {

bool is_lower_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), to_lower);
  return lower;
}

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); });
}

// Dashed, undashed, braced or as a URN.
bool is_uuid(std::string_view text) {
  if (text.size() == 45 && text.starts_with("urn:uuid:")) text.remove_prefix(9);
  if (text.size() == 38 && text.front() == '{' && text.back() == '}') text = text.substr(1, 36);
  if (text.size() == 32) return is_hex(text);
  if (text.size() != 36) return false;
  const auto pieces = split(text, '-');
  constexpr std::size_t kLengths[] = {8, 4, 4, 4, 12};
  if (pieces.size() != std::size(kLengths)) return false;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i].size() != kLengths[i] || !is_hex(pieces[i])) return false;
  return true;
}

bool is_index(std::string_view text) {
  return parse_unsigned(text).has_value();
}

}  // namespace

bool is_subdomain(std::string_view text) {
  constexpr std::size_t kLongest = 253;
  if (text.empty() || text.size() > kLongest) return false;
  return std::ranges::all_of(split(text, '.'), [](std::string_view label) {
    return !label.empty() && is_lower_alphanumeric(label.front()) && is_lower_alphanumeric(label.back()) &&
           std::ranges::all_of(label, [](char c) { return is_lower_alphanumeric(c) || c == '-'; });
  });
}

Result<std::string> resource_name(std::string_view text) {
  std::string full(text);
  if (!text.starts_with(kResourcePrefix)) {
    if (text.find('/') != std::string_view::npos)
      return fail(Kind::kInvalid, in_quotes(text) + " is not a resource of NVIDIA's: only nvidia.com/… can be shared");
    full.insert(0, kResourcePrefix);
  }
  if (full.size() > kLongestResourceName)
    return fail(Kind::kInvalid,
                in_quotes(full) + " has " + std::to_string(full.size()) + " characters, and 63 are the most");
  const std::string_view local = std::string_view(full).substr(full.find('/') + 1);
  if (!is_subdomain(local))
    return fail(Kind::kInvalid, in_quotes(local) +
                                    " is not a resource name: lower-case letters, digits, \"-\" and \".\" only, "
                                    "beginning and ending with a letter or digit");
  return full;
}

Result<std::string> name_pattern(std::string_view text) {
  bool signs = false;
  for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 2)) {
    const char sign = at + 1 < text.size() ? text[at + 1] : ' ';
    if (sign != 'd' && sign != 'g' && sign != 'm')
      return fail(Kind::kInvalid, in_quotes(text) + " has a % that is none of %d, %g and %m");
    signs = true;
  }
  if (!signs)
    return fail(Kind::kInvalid, in_quotes(text) + " has none of %d (index), %g (GB of a slot) and %m (model)");
  const auto sample = resource_name(expand(text, {"0", 1, "a"}));
  if (!sample) return std::unexpected(sample.error());
  return (text.starts_with(kResourcePrefix) ? "" : std::string(kResourcePrefix)) + std::string(text);
}

std::string expand(std::string_view pattern, const NameParts& parts) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char sign = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (sign == 'd')
      name += parts.index;
    else if (sign == 'g')
      name += std::to_string(parts.slot_gib);
    else if (sign == 'm')
      name += model_in_names(parts.model);
    else
      name += pattern[i];
    if (sign == 'd' || sign == 'g' || sign == 'm') ++i;
  }
  return name;
}

std::string model_in_names(std::string_view model) {
  if (same_in_any_case(model.substr(0, 7), "nvidia ")) model.remove_prefix(7);
  std::string name;
  for (const char c : model) {
    if (is_lower_alphanumeric(to_lower(c)))
      name += to_lower(c);
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  while (name.ends_with('-')) name.pop_back();
  return name;
}

std::optional<std::string> pci_address(std::string_view text) {
  constexpr std::size_t kDomain = 8;
  const auto pieces = split(text, ':');
  if (pieces.size() != 2 && pieces.size() != 3) return std::nullopt;
  std::string domain(pieces.size() == 3 ? pieces[0] : "0");
  const std::string_view bus = pieces[pieces.size() - 2];
  const std::string_view rest = pieces.back();  // "00.0"
  if (domain.empty() || domain.size() > kDomain || bus.size() != 2 || rest.size() != 4 || rest[2] != '.')
    return std::nullopt;
  if (!is_hex(domain) || !is_hex(bus) || !is_hex(rest.substr(0, 2)) || !is_hex(rest.substr(3))) return std::nullopt;
  return in_lower_case(std::string(kDomain - domain.size(), '0') + domain + ":" + std::string(bus) + ":" +
                       std::string(rest));
}

// The texts between stars follow one another; each is searched from the end of the one before it.
bool matches(std::string_view text, std::string_view pattern) {
  const std::string all = in_lower_case(text), wanted = in_lower_case(pattern);
  const auto pieces = split(wanted, '*');
  if (pieces.size() == 1) return all == wanted;
  std::string_view rest = all;
  if (!rest.starts_with(pieces.front())) return false;
  rest.remove_prefix(pieces.front().size());
  for (std::size_t i = 1; i + 1 < pieces.size(); ++i) {
    const auto at = rest.find(pieces[i]);
    if (at == std::string_view::npos) return false;
    rest.remove_prefix(at + pieces[i].size());
  }
  return rest.ends_with(pieces.back());
}

bool is_device_reference(std::string_view text) {
  if (is_index(text)) return true;
  if (const auto colon = text.find(':');
      colon != std::string_view::npos && !text.starts_with("MIG-") && !text.starts_with("GPU-"))
    return is_index(text.substr(0, colon)) && is_index(text.substr(colon + 1));
  if (text.starts_with("GPU-")) return is_uuid(text.substr(4));
  if (text.starts_with("MIG-GPU-")) {
    const auto pieces = split(text.substr(8), '/');
    return pieces.size() == 3 && is_uuid(pieces[0]) && is_index(pieces[1]) && is_index(pieces[2]);
  }
  return text.starts_with("MIG-") && is_uuid(text.substr(4));
}

}  // namespace tranche::config

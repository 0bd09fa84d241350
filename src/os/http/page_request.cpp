#include "os/http/page_request.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/text.h"

namespace tranche::os {
namespace {

constexpr int kBadRequest = 400;
constexpr int kHeadTooLong = 431;

// "GET /metrics?x=1 HTTP/1.1"
PageRequest read_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const auto target_at = line.find(' ');
  const auto version_at = line.rfind(' ');
  if (target_at == std::string_view::npos || version_at <= target_at + 1) return {.refused = kBadRequest};
  const auto target = line.substr(target_at + 1, version_at - target_at - 1);
  const auto is_plain = [](unsigned char byte) { return byte > 0x20 && byte < 0x7f; };
  if (!line.substr(version_at + 1).starts_with("HTTP/1.") || !std::ranges::all_of(target, is_plain))
    return {.refused = kBadRequest};
  const auto question = std::min(target.find('?'), target.size());
  return {.method = std::string(line.substr(0, target_at)),
          .path = std::string(target.substr(0, question)),
          .query = std::string(target.substr(std::min(question + 1, target.size())))};
}

// The value of the first header of this name, which is in lower case; "" = none.
std::string_view header(std::string_view head, std::string_view name) {
  for (const auto line : lines_of(head)) {
    const auto colon = line.find(':');
    if (colon == name.size() && std::ranges::equal(line.substr(0, colon), name, {}, to_lower))
      return trimmed(line.substr(colon + 1));
  }
  return {};
}

// "localhost:9480" → "localhost".
std::string without_port(std::string_view host) {
  const auto port = host.rfind(':');
  const bool is_v6 = host.starts_with('[');
  if (port == std::string_view::npos || (is_v6 && host.ends_with(']'))) return std::string(host);
  return std::string(host.substr(0, port));
}

}  // namespace

std::optional<PageRequest> read_http_request(std::string_view bytes, std::size_t longest) {
  const auto end = std::min(bytes.find("\r\n\r\n"), bytes.find("\n\n"));
  if (std::min(end, bytes.size()) > longest) return PageRequest{.refused = kHeadTooLong};
  if (end == std::string_view::npos) return std::nullopt;
  const auto line = bytes.find('\n');
  auto request = read_line(bytes.substr(0, line));
  const auto headers = bytes.substr(line + 1, end - std::min(line + 1, end));
  request.host = without_port(header(headers, "host"));
  return request;
}

bool is_own_name(std::string_view host) {
  if (host == "localhost" || host == "[::1]") return true;
  const auto parts = split(host, '.');
  return parts.size() == 4 && parts[0] == "127" && std::ranges::all_of(parts, [](std::string_view part) {
           const auto number = parse_unsigned(part);
           return number && *number <= 255;
         });
}

}  // namespace tranche::os

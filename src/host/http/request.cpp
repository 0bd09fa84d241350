#include "host/http/request.h"

#include <algorithm>

namespace tranche::host {
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
  return {.method = std::string(line.substr(0, target_at)), .path = std::string(target.substr(0, target.find('?')))};
}

}  // namespace

std::optional<PageRequest> read_http_request(std::string_view bytes, std::size_t longest) {
  const auto end = std::min(bytes.find("\r\n\r\n"), bytes.find("\n\n"));
  if (std::min(end, bytes.size()) > longest) return PageRequest{.refused = kHeadTooLong};
  if (end == std::string_view::npos) return std::nullopt;
  return read_line(bytes.substr(0, bytes.find('\n')));
}

}  // namespace tranche::host

#include "os/log/render_event.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/enum_names.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "os/clock/clock.h"

namespace tranche::log {
namespace {

constexpr std::size_t kLongestValue = 4096;
constexpr std::string_view kCut = "…";

bool is_plain(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7f || c == '"' || c == '\\' || c == '=') return false;
  }
  return true;
}

std::string quoted(std::string_view text) {
  return json_text(nlohmann::json(text));
}

bool is_utf8(std::string_view text) {
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0x80) != 0) return quoted(text).find("\xef\xbf\xbd") == std::string::npos;
  }
  return true;
}

std::string text_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    const auto shown = first_bytes(*text, kLongestValue);
    std::string out = is_plain(shown) && is_utf8(shown) ? std::string(shown) : quoted(shown);
    if (shown.size() < text->size()) out += kCut;
    return out;
  }
  if (const auto* number = std::get_if<long long>(&value)) return std::to_string(*number);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  return std::get<bool>(value) ? "true" : "false";
}

nlohmann::ordered_json json_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    const auto shown = first_bytes(*text, kLongestValue);
    return std::string(shown) + (shown.size() < text->size() ? std::string(kCut) : "");
  }
  if (const auto* number = std::get_if<long long>(&value)) return *number;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::get<bool>(value);
}

}  // namespace

std::string_view to_string(Level level) {
  return enum_name<Level::kError>(level, {"debug", "info", "warning", "error"});
}

std::string text_of(std::string_view event, std::initializer_list<Field> fields) {
  std::string line(event);
  std::string_view gap = "  ";
  for (const auto& field : fields) {
    line += gap;
    line += field.key;
    line += '=';
    line += text_of(field.value);
    gap = " ";
  }
  return line;
}

std::string json_of(WallTime time, Level level, std::string_view event, std::initializer_list<Field> fields) {
  nlohmann::ordered_json line;
  line["time"] = os::utc_text(time);
  line["level"] = to_string(level);
  line["event"] = event;
  for (const auto& field : fields) {
    std::string key(field.key);
    if (key == "time" || key == "level" || key == "event") key += '_';
    line[key] = json_of(field.value);
  }
  return json_text(line);
}

}  // namespace tranche::log

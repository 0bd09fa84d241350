#include "cli/commands.h"

namespace tranche::cli {
namespace {

bool is_flag(std::string_view word) {
  return word.size() > 1 && word.front() == '-';
}

}  // namespace

GoArguments read_go_arguments(const std::vector<std::string>& arguments,
                              const std::function<bool(std::string_view)>& takes_value) {
  GoArguments out;
  std::size_t i = 0;
  for (; i < arguments.size() && is_flag(arguments[i]); ++i) {
    std::string_view body = arguments[i];
    body.remove_prefix(body.starts_with("--") ? 2 : 1);
    if (body.empty()) {  // "--" ends the flags
      ++i;
      break;
    }
    if (body.front() == '-' || body.front() == '=') {  // no name: a later check refuses it
      out.words.push_back(arguments[i]);
      continue;
    }
    const auto equals = body.find('=');
    const std::string_view name = body.substr(0, equals);
    const std::string dashes = name.size() == 1 ? "-" : "--";
    if (!takes_value(name)) {
      out.words.push_back(dashes + std::string(body));
      continue;
    }
    out.words.push_back(dashes + std::string(name));
    if (equals != std::string_view::npos)
      out.words.emplace_back(body.substr(equals + 1));
    else if (i + 1 < arguments.size())
      out.words.push_back(arguments[++i]);
  }
  out.rest.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  return out;
}

}  // namespace tranche::cli

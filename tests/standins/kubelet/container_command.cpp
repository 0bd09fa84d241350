#include "standins/kubelet/container_command.h"

#include <algorithm>
#include <ranges>

namespace tranche::sim {
namespace {

// Whether a path ends before, or begins after, this character: lists, assignments and quotes separate paths.
bool separates(char c) {
  return std::string_view(":;,= \t\"'()[]{}").find(c) != std::string_view::npos;
}

std::string_view without_last_slash(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

class Environment {
 public:
  void set(const std::string& name, const std::string& value) {
    const auto found = std::ranges::find(entries_, name, &std::pair<std::string, std::string>::first);
    if (found != entries_.end()) {
      found->second = value;
    } else {
      entries_.emplace_back(name, value);
    }
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> result;
    for (const auto& [name, value] : entries_) result.push_back(name + "=" + value);
    return result;
  }

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

}  // namespace

std::string expand_variables(std::string_view text, const std::vector<std::pair<std::string, std::string>>& env) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$' || i + 1 == text.size()) {
      result += text[i];
      continue;
    }
    if (text[i + 1] == '$') {
      result += '$';
      ++i;
      continue;
    }
    const auto close = text[i + 1] == '(' ? text.find(')', i) : std::string_view::npos;
    if (close == std::string_view::npos) {
      result += '$';
      continue;
    }
    const std::string_view name = text.substr(i + 2, close - i - 2);
    const auto reversed = std::views::reverse(env);  // the latest value of a name set twice
    const auto found = std::ranges::find_if(reversed, [&](const auto& entry) { return entry.first == name; });
    if (found == reversed.end()) {
      result += '$';  // unchanged
      continue;
    }
    result += found->second;
    i = close;
  }
  return result;
}

std::string with_host_paths(std::string_view text, const std::vector<ContainerGrant::Mount>& mounts) {
  std::vector<ContainerGrant::Mount> longest_first = mounts;
  std::ranges::stable_sort(longest_first, std::ranges::greater{},
                           [](const auto& mount) { return mount.container_path.size(); });
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const bool begins = i == 0 || separates(text[i - 1]);
    const auto found = std::ranges::find_if(longest_first, [&](const auto& mount) {
      const std::string_view path = without_last_slash(mount.container_path);
      if (!begins || path.size() < 2 || !text.substr(i).starts_with(path)) return false;
      const std::size_t after = i + path.size();
      return after == text.size() || text[after] == '/' || separates(text[after]);
    });
    if (found == longest_first.end()) {
      result += text[i++];
      continue;
    }
    result += without_last_slash(found->host_path);
    i += without_last_slash(found->container_path).size();
  }
  return result;
}

ContainerCommand container_command(const PodContainer& container, const ContainerGrant& grant,
                                   const std::vector<std::string>& image_env, ContainerMode mode) {
  const auto placed = [&](std::string text) {
    return mode == ContainerMode::kProcess ? with_host_paths(text, grant.mounts) : text;
  };
  Environment env;
  for (const std::string& line : image_env) {
    const auto equals = line.find('=');
    if (equals != std::string::npos && equals > 0) env.set(line.substr(0, equals), line.substr(equals + 1));
  }
  for (const auto& [name, value] : grant.envs) env.set(name, placed(value));
  std::vector<std::pair<std::string, std::string>> own;  // references resolve to the pod's variables only
  for (const auto& [name, value] : container.env) {
    own.emplace_back(name, expand_variables(value, own));
    env.set(name, placed(own.back().second));
  }
  ContainerCommand command;
  command.env = env.lines();
  for (const auto* part : {&container.command, &container.args}) {
    for (const std::string& word : *part) command.argv.push_back(placed(expand_variables(word, own)));
  }
  return command;
}

}  // namespace tranche::sim

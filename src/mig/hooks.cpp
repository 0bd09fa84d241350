#include "mig/hooks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/problem_list.h"
#include "base/text.h"
#include "config/document/document.h"

namespace tranche::mig {
namespace {

class HookReader {
 public:
  explicit HookReader(std::string_view source) : source_(source) {}

  ParsedHooks read(std::string_view text) {
    ParsedHooks parsed;
    const auto document = config::read_document(text, source_);
    if (document.problem) {
      problems_.add(*document.problem);
    } else if (document.root == nullptr || document.root->kind != config::Node::Kind::kMapping) {
      error({source_, 1, 1}, "", "must be a mapping", "write version: v1 and hooks:");
    } else {
      file(*document.root, parsed.hooks);
    }
    problems_.sort_by_place();
    parsed.problems = problems_.take();
    return parsed;
  }

 private:
  using Node = config::Node;

  Place at(const Node& node) const { return {source_, node.line, node.column}; }
  void error(Place place, std::string path, std::string what, std::string remedy) {
    problems_.add({Severity::kError, std::move(place), std::move(path), std::move(what), std::move(remedy)});
  }

  template <class Take>
  void members(const Node& mapping, const std::string& path, const std::vector<std::string_view>& known, Take take) {
    for (const auto& one : mapping.members) {
      const std::string below = path.empty() ? one.key : path + "." + one.key;
      if (std::ranges::find(known, one.key) != known.end()) {
        take(one.key, *one.value, below);
        continue;
      }
      const auto meant = did_you_mean(one.key, known);
      error({source_, one.line, one.column}, below, "is not a key of a hooks file",
            meant.empty() ? "remove it" : "did you mean " + meant + "?");
    }
  }

  void file(const Node& root, Hooks& hooks) {
    bool version = false;
    members(root, "", {"version", "hooks"}, [&](const std::string& key, const Node& value, const std::string& path) {
      if (key == "version") {
        version = value.kind == Node::Kind::kScalar && value.text == "v1";
        if (!version) error(at(value), path, "must be v1, but is " + config::describe(value), "write version: v1");
        version = true;
      } else if (value.kind == Node::Kind::kMapping) {
        stages(value, path, hooks);
      } else if (value.kind != Node::Kind::kNull) {
        error(at(value), path, "must be a mapping of stages, but is " + config::describe(value), "write apply-start:");
      }
    });
    if (!version) error({source_, 1, 1}, "version", "is missing", "write version: v1");
  }

  void stages(const Node& node, const std::string& path, Hooks& hooks) {
    members(node, path, {"apply-start", "pre-apply-mode", "pre-apply-config", "apply-exit"},
            [&](const std::string& key, const Node& value, const std::string& below) {
              auto& into = key == "apply-start"        ? hooks.apply_start
                           : key == "pre-apply-mode"   ? hooks.pre_apply_mode
                           : key == "pre-apply-config" ? hooks.pre_apply_config
                                                       : hooks.apply_exit;
              if (value.kind == Node::Kind::kNull) return;
              if (value.kind != Node::Kind::kSequence)
                return error(at(value), below, "must be a list of commands, but is " + config::describe(value),
                             "write - command: and args: below it");
              for (std::size_t i = 0; i < value.items.size(); ++i)
                into.push_back(hook(*value.items[i], fmt::format("{}[{}]", below, i)));
            });
  }

  Hook hook(const Node& node, const std::string& path) {
    Hook one;
    if (node.kind != Node::Kind::kMapping) {
      error(at(node), path, "must be a mapping, but is " + config::describe(node), "write command: and args:");
      return one;
    }
    members(node, path, {"command", "args", "envs", "workdir"},
            [&](const std::string& key, const Node& value, const std::string& below) {
              if (key == "command" || key == "workdir") {
                text(value, below, key == "command" ? one.command : one.workdir);
              } else if (key == "args" && value.kind == Node::Kind::kSequence) {
                for (std::size_t i = 0; i < value.items.size(); ++i)
                  text(*value.items[i], fmt::format("{}[{}]", below, i), one.args.emplace_back());
              } else if (key == "envs" && value.kind == Node::Kind::kMapping) {
                for (const auto& env : value.members) text(*env.value, below + "." + env.key, one.envs[env.key]);
              } else if (value.kind != Node::Kind::kNull) {
                error(
                    at(value), below,
                    fmt::format("must be a {}, but is {}", key == "args" ? "list" : "mapping", config::describe(value)),
                    key == "args" ? "write [\"-c\", \"…\"]" : "write NAME: value");
              }
            });
    if (one.command.empty()) error(at(node), path + ".command", "is missing", "name the program to run");
    return one;
  }

  void text(const Node& node, const std::string& path, std::string& into) {
    if (node.kind == Node::Kind::kScalar)
      into = node.text;
    else if (node.kind != Node::Kind::kNull)
      error(at(node), path, "must be a text, but is " + config::describe(node), "write it in quotes");
  }

  std::string source_;
  ProblemList problems_;
};

}  // namespace

ParsedHooks parse_hooks_file(std::string_view text, std::string_view source) {
  return HookReader(source).read(text);
}

}  // namespace tranche::mig

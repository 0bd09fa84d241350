#include "mig/hooks.h"

#include <algorithm>

#include "config/document/fields.h"

namespace tranche::mig {
namespace {

using config::Node;
using config::Value;

template <class Take>
void each_member(const Value& mapping, const std::vector<std::string_view>& known, Take take) {
  for (const auto& one : mapping.node().members) {
    if (std::ranges::find(known, one.key) != known.end()) {
      take(one.key, mapping.value_of(one));
      continue;
    }
    const auto meant = did_you_mean(one.key, known);
    mapping.key_of(one).error("is not a key of a hooks file",
                              meant.empty() ? "remove it" : "did you mean " + meant + "?");
  }
}

void read_text(const Value& value, std::string& into) {
  if (value.is(Node::Kind::kScalar))
    into = value.node().text;
  else if (!value.is(Node::Kind::kNull))
    value.wrong_type("a text", "write it in quotes");
}

Hook read_hook(const Value& value) {
  Hook hook;
  if (!value.is(Node::Kind::kMapping)) {
    value.wrong_type("a mapping", "write command: and args:");
    return hook;
  }
  each_member(value, {"command", "args", "envs", "workdir"}, [&](const std::string& key, const Value& member) {
    if (key == "command" || key == "workdir") {
      read_text(member, key == "command" ? hook.command : hook.workdir);
    } else if (key == "args" && member.is(Node::Kind::kSequence)) {
      for (const Value& argument : member.items()) read_text(argument, hook.args.emplace_back());
    } else if (key == "envs" && member.is(Node::Kind::kMapping)) {
      for (const auto& env : member.node().members) read_text(member.value_of(env), hook.envs[env.key]);
    } else if (!member.is(Node::Kind::kNull)) {
      member.wrong_type(key == "args" ? "a list" : "a mapping",
                        key == "args" ? "write [\"-c\", \"…\"]" : "write NAME: value");
    }
  });
  if (hook.command.empty()) value.absent("command").error("is missing", "name the program to run");
  return hook;
}

void read_stages(const Value& stages, Hooks& hooks) {
  each_member(stages, {"apply-start", "pre-apply-mode", "pre-apply-config", "apply-exit"},
              [&](const std::string& key, const Value& stage) {
                if (stage.is(Node::Kind::kNull)) return;
                if (!stage.is(Node::Kind::kSequence))
                  return stage.wrong_type("a list of commands", "write - command: and args: below it");
                for (const Value& hook : stage.items()) hooks[key].push_back(read_hook(hook));
              });
}

void read_file(const Value& file, Hooks& hooks) {
  bool version = false;
  each_member(file, {"version", "hooks"}, [&](const std::string& key, const Value& value) {
    if (key == "version") {
      version = true;
      if (!value.is(Node::Kind::kScalar) || value.node().text != "v1") value.wrong_type("v1", "write version: v1");
    } else if (value.is(Node::Kind::kMapping)) {
      read_stages(value, hooks);
    } else if (!value.is(Node::Kind::kNull)) {
      value.wrong_type("a mapping of stages", "write apply-start:");
    }
  });
  if (!version) file.absent("version").error("is missing", "write version: v1");
}

}  // namespace

ParsedHooks parse_hooks_file(std::string_view text, std::string_view source) {
  ParsedHooks parsed;
  config::Findings findings;
  findings.source = source;
  const auto document = config::read_document(text, source);
  const Value file(document.root.get(), "", {findings.source, 1, 1}, findings);
  if (document.problem)
    findings.problems.add(*document.problem);
  else if (file.absent() || !file.is(Node::Kind::kMapping))
    file.error("must be a mapping", "write version: v1 and hooks:");
  else
    read_file(file, parsed.hooks);
  findings.problems.sort_by_place();
  parsed.problems = findings.problems.take();
  return parsed;
}

}  // namespace tranche::mig

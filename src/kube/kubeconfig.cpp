#include <algorithm>
#include <deque>
#include <iterator>

#include "base/text.h"
#include "config/document/document.h"
#include "config/document/fields.h"
#include "kube/access.h"

namespace tranche::kube {
namespace {

using config::Node;
using config::Value;

constexpr int kLongestPath = 4096;
constexpr std::string_view kExecV1 = "client.authentication.k8s.io/v1";
constexpr std::string_view kExecV1beta1 = "client.authentication.k8s.io/v1beta1";

std::string text(const Value& mapping, std::string_view key) {
  const Value member = mapping.member(key);
  return member.given() ? member.text().value_or("") : "";
}

std::vector<Value> items(const Value& mapping, std::string_view key) {
  return mapping.member(key).of(Node::Kind::kSequence, "a list", "write it as a list").items();
}

std::string below(const Value& value, std::string path) {
  const std::string& file = value.place().source;
  const auto slash = file.rfind('/');
  if (path.empty() || path.starts_with('/') || slash == std::string::npos) return path;
  return file.substr(0, slash + 1) + path;
}

Material material_in(const Value& mapping, const std::string& key) {
  Material material;
  const Value data = mapping.member(key + "-data");
  if (data.given()) {
    const auto text = data.text();
    if (!text) return material;
    const auto decoded = base64_decoded(*text);
    if (!decoded || !decoded->starts_with("-----BEGIN ")) {
      data.error("is not a PEM text in base64", "write the output of: base64 -w0 FILE.pem");
      return material;
    }
    material.pem = *decoded;  // overrides the file, as in kubectl
    return material;
  }
  material.file = below(mapping, text(mapping, key));
  if (material.file.size() > kLongestPath) mapping.member(key).error("is no path", "write a shorter one");
  return material;
}

void read_cluster(const Value& cluster, Access& access) {
  const Value server = cluster.member("server");
  if (!server.given()) {
    server.error("is not there", "write for example server: https://10.0.0.1:6443");
  } else if (const auto url = server.text()) {
    if (auto parsed = parse_server(*url)) {
      access.server = *std::move(parsed);
    } else {
      server.error(parsed.error().what, "write for example https://10.0.0.1:6443");
    }
  }
  access.authorities = material_in(cluster, "certificate-authority");
  const Value insecure = cluster.member("insecure-skip-tls-verify");
  if (insecure.given()) access.insecure = insecure.boolean().value_or(false);
  if (access.insecure)
    insecure.warn("lets anybody be the API server", "write certificate-authority-data with the cluster's authority");
  access.tls_server_name = text(cluster, "tls-server-name");
  access.proxy = text(cluster, "proxy-url");
}

CredentialProgram read_program(const Value& exec) {
  CredentialProgram program;
  program.api_version = text(exec, "apiVersion");
  if (program.api_version != kExecV1 && program.api_version != kExecV1beta1)
    exec.member("apiVersion")
        .error("is not a version of credential programs that is supported",
               "write apiVersion: " + std::string(kExecV1));
  std::string command = text(exec, "command");
  if (command.empty()) exec.error("names no command", "write for example command: aws");
  program.argv.push_back(command.find('/') == std::string::npos ? command : below(exec, command));
  for (const Value& word : items(exec, "args")) program.argv.push_back(word.text().value_or(""));
  for (const Value& variable : items(exec, "env")) {
    if (text(variable, "name").empty()) variable.error("is a variable without a name", "write name and value");
    program.env[text(variable, "name")] = text(variable, "value");
  }
  if (const Value mode = exec.member("interactiveMode"); mode.given())
    program.input = mode.word<CredentialProgram::Input>().value_or(program.input);
  if (const Value wants = exec.member("provideClusterInfo"); wants.given())
    program.cluster_info = wants.boolean().value_or(false);
  program.install_hint = text(exec, "installHint");
  return program;
}

void read_user(const Value& user, Access& access) {
  access.token = text(user, "token");
  access.token_file = below(user, text(user, "tokenFile"));
  access.certificate = material_in(user, "client-certificate");
  access.key = material_in(user, "client-key");
  for (const char* former : {"auth-provider", "username"})
    if (const Value value = user.member(former); value.given())
      value.error("is not supported, as by kubectl since 1.26", "write exec, token, tokenFile or client-certificate");
  if (const Value exec = user.member("exec"); exec.given() && access.token.empty() && access.token_file.empty())
    access.program = read_program(exec);
  if (access.certificate.given() != access.key.given())
    user.error("has a client certificate without its key, or the other way round",
               "write both client-certificate and client-key");
  if (!is_token(access.token))
    user.member("token").error("has characters that no token has", "write it in one line, without blanks");
}

struct File {
  config::Findings findings;
  config::Document document;
};

bool has_error(const std::deque<File>& files) {
  return std::ranges::any_of(files, [](const File& file) { return file.findings.problems.has_error(); });
}

Value read_top(File& file, const KubeconfigFile& from, bool alone) {
  file.findings.source = from.path;
  file.document = config::read_document(from.text, from.path);
  const Node* const root = file.document.root.get();
  const Value top(root, "", root == nullptr ? Place{from.path} : Place{from.path, root->line, root->column},
                  file.findings);
  if (file.document.problem) {
    file.findings.problems.add(*file.document.problem);
  } else if (root == nullptr) {
    if (alone) top.error("is empty", "write apiVersion: v1, kind: Config and what follows");
  } else if (root->kind != Node::Kind::kMapping) {
    top.wrong_type("a kubeconfig", "write apiVersion: v1, kind: Config and what follows");
  } else if (const Value kind = top.member("kind"); kind.given() && kind.plain_text() != "Config") {
    kind.error("must be Config", "name a kubeconfig file");
  }
  return top;
}

// The entry with that name; if there is none, reports that at `wanted` and returns an absent value.
Value named(const std::vector<Value>& tops, std::string_view list, std::string_view what, const Value& wanted,
            const std::string& name) {
  const Value none(nullptr, std::string(list), wanted.place(), wanted.findings());
  if (name.empty()) {
    wanted.error("names no " + std::string(what), "write the name of one of " + std::string(list));
    return none;
  }
  std::vector<std::string> names;
  for (const Value& top : tops)
    for (const Value& entry : items(top, list)) {
      const Value own = entry.member("name");
      const std::string called = own.given() ? own.plain_text().value_or("") : "";
      if (called == name) return entry.member(what);
      names.push_back(called);
    }
  const std::string meant = did_you_mean(name, {names.begin(), names.end()});
  wanted.error("names the " + std::string(what) + " " + in_quotes(name) + ", which is not among " + std::string(list),
               meant.empty() ? "write the name of one of " + std::string(list) : "did you mean " + meant + "?");
  return none;
}

void read_access(const std::deque<File>& files, const std::vector<Value>& tops, const std::string& context_name,
                 Access& access) {
  const auto entry = [&tops](std::string_view list, std::string_view what, const Value& wanted) {
    return named(tops, list, what, wanted, wanted.given() ? wanted.text().value_or("") : "");
  };
  const auto current =
      std::ranges::find_if(tops, [](const Value& top) { return !text(top, "current-context").empty(); });
  const Value& first = current == tops.end() ? tops.front() : *current;
  const Value asked(nullptr, "--context", Place{access.source}, tops.front().findings());
  const Value context = context_name.empty() ? entry("contexts", "context", first.member("current-context"))
                                             : named(tops, "contexts", "context", asked, context_name);
  if (context.given()) {
    if (const Value cluster = entry("clusters", "cluster", context.member("cluster")); cluster.given())
      read_cluster(cluster, access);
    if (const Value user = entry("users", "user", context.member("user")); user.given()) read_user(user, access);
  }
  if (access.server.host.empty() && !has_error(files))
    first.error("leads to no cluster with a server", "write clusters, users, contexts and current-context");
}

}  // namespace

ParsedKubeconfig parse_kubeconfig(const std::vector<KubeconfigFile>& files, const std::string& context) {
  std::deque<File> read;
  std::vector<Value> tops;
  Access access;
  for (const auto& file : files) {
    tops.push_back(read_top(read.emplace_back(), file, files.size() == 1));
    access.source += (access.source.empty() ? "" : ":") + file.path;
  }
  if (!tops.empty() && !has_error(read)) read_access(read, tops, context, access);
  ParsedKubeconfig parsed;
  if (!tops.empty() && !has_error(read)) parsed.access = std::move(access);
  for (File& file : read) std::ranges::move(file.findings.problems.take(), std::back_inserter(parsed.problems));
  return parsed;
}

}  // namespace tranche::kube

#include <algorithm>

#include "base/text.h"
#include "config/document/document.h"
#include "config/document/fields.h"
#include "kube/access.h"
#include "kube/base64.h"

namespace tranche::kube {
namespace {

using config::Findings;
using config::Node;
using config::Value;

constexpr int kLongestPath = 4096;

// Unlike Tranche's configuration, a kubeconfig is shared with other programs, so unknown fields are ignored.
class Reader {
 public:
  Reader(std::string_view source, std::string_view directory) : directory_(directory) { findings_.source = source; }

  std::optional<Access> read(const Node& root);
  std::vector<Problem> take_problems() { return findings_.problems.take(); }

 private:
  Value member(const Value& mapping, std::string_view key);
  std::string text(const Value& mapping, std::string_view key);
  Value named(const Value& root, std::string_view list, std::string_view what, const Value& wanted);
  Material material(const Value& mapping, const std::string& key);
  std::string below(std::string path) const;
  void read_cluster(const Value& cluster, Access& access);
  void read_user(const Value& user, Access& access);

  Findings findings_;
  std::string directory_;
};

Value Reader::member(const Value& mapping, std::string_view key) {
  const std::string path = mapping.path().empty() ? std::string(key) : mapping.path() + "." + std::string(key);
  if (mapping.absent() || mapping.node().kind != Node::Kind::kMapping)
    return {nullptr, path, mapping.place(), findings_};
  for (const auto& entry : mapping.node().members) {
    if (entry.key != key) continue;
    const bool empty = entry.value->kind == Node::Kind::kNull;
    return {entry.value.get(), path,
            Place{findings_.source, empty ? entry.line : entry.value->line, empty ? entry.column : entry.value->column},
            findings_};
  }
  return {nullptr, path, mapping.place(), findings_};
}

std::string Reader::text(const Value& mapping, std::string_view key) {
  const Value value = member(mapping, key);
  if (!value.given()) return {};
  return value.text().value_or("");
}

// The entry of `list` with the name in `wanted`; if there is none, reports that and returns an absent value.
Value Reader::named(const Value& root, std::string_view list, std::string_view what, const Value& wanted) {
  const Value entries = member(root, list);
  const std::string name = wanted.given() ? wanted.text().value_or("") : "";
  const Value none(nullptr, std::string(list), root.place(), findings_);
  if (name.empty()) {
    wanted.error("names no " + std::string(what), "write the name of one of " + std::string(list));
    return none;
  }
  std::vector<std::string> names;
  if (entries.given() && entries.node().kind == Node::Kind::kSequence) {
    for (const Value& entry : entries.items()) {
      const Value own = member(entry, "name");
      const std::string called = own.given() ? own.plain_text().value_or("") : "";
      if (called == name) return member(entry, what);
      names.push_back(called);
    }
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string meant = did_you_mean(name, known);
  wanted.error("names the " + std::string(what) + " " + in_quotes(name) + ", which is not among " + std::string(list),
               meant.empty() ? "write the name of one of " + std::string(list) : "did you mean " + meant + "?");
  return none;
}

std::string Reader::below(std::string path) const {
  if (path.empty() || path.starts_with('/') || directory_.empty()) return path;
  return directory_ + "/" + path;
}

Material Reader::material(const Value& mapping, const std::string& key) {
  Material material;
  const Value data = member(mapping, key + "-data");
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
  material.file = below(text(mapping, key));
  if (material.file.size() > kLongestPath) member(mapping, key).error("is no path", "write a shorter one");
  return material;
}

void Reader::read_cluster(const Value& cluster, Access& access) {
  const Value server = member(cluster, "server");
  if (!server.given()) {
    server.error("is not there", "write for example server: https://10.0.0.1:6443");
  } else if (const auto url = server.text()) {
    if (auto parsed = parse_server(*url)) {
      access.server = *std::move(parsed);
    } else {
      server.error(parsed.error().what, "write for example https://10.0.0.1:6443");
    }
  }
  access.authorities = material(cluster, "certificate-authority");
  const Value insecure = member(cluster, "insecure-skip-tls-verify");
  if (insecure.given()) access.insecure = insecure.boolean().value_or(false);
  if (access.insecure)
    insecure.warn("lets anybody be the API server", "write certificate-authority-data with the cluster's authority");
  access.tls_server_name = text(cluster, "tls-server-name");
  access.proxy = text(cluster, "proxy-url");
}

void Reader::read_user(const Value& user, Access& access) {
  access.token = text(user, "token");
  access.token_file = below(text(user, "tokenFile"));
  access.certificate = material(user, "client-certificate");
  access.key = material(user, "client-key");
  for (const char* plugin : {"exec", "auth-provider", "username"}) {
    const Value value = member(user, plugin);
    if (!value.given()) continue;
    value.error("is not used here: no credential programs are run and no passwords sent",
                "write token, tokenFile, or client-certificate and client-key");
  }
  if (access.certificate.given() != access.key.given())
    user.error("has a client certificate without its key, or the other way round",
               "write both client-certificate and client-key");
  const std::string& token = access.token;
  if (std::ranges::any_of(token, [](char c) { return c <= ' ' || c > '~'; }))
    member(user, "token").error("has characters that no token has", "write it in one line, without blanks");
}

std::optional<Access> Reader::read(const Node& root) {
  const Value top(&root, "", Place{findings_.source, root.line, root.column}, findings_);
  if (root.kind != Node::Kind::kMapping) {
    top.wrong_type("a kubeconfig", "write apiVersion: v1, kind: Config and what follows");
    return std::nullopt;
  }
  if (const Value kind = member(top, "kind"); kind.given() && kind.plain_text() != "Config")
    kind.error("must be Config", "name a kubeconfig file");
  Access access;
  access.source = findings_.source;
  const Value context = named(top, "contexts", "context", member(top, "current-context"));
  if (context.given()) {
    if (const Value cluster = named(top, "clusters", "cluster", member(context, "cluster")); cluster.given())
      read_cluster(cluster, access);
    if (const Value user = named(top, "users", "user", member(context, "user")); user.given()) read_user(user, access);
  }
  if (access.server.host.empty() && !findings_.problems.has_error())
    top.error("leads to no cluster with a server", "write clusters, users, contexts and current-context");
  if (findings_.problems.has_error()) return std::nullopt;
  return access;
}

}  // namespace

ParsedKubeconfig parse_kubeconfig(std::string_view text, std::string_view source, std::string_view directory) {
  ParsedKubeconfig parsed;
  const config::Document document = config::read_document(text, source);
  if (document.problem) {
    parsed.problems.push_back(*document.problem);
    return parsed;
  }
  if (!document.root) {
    parsed.problems.push_back({Severity::kError, Place{std::string(source)}, "", "is empty",
                               "write apiVersion: v1, kind: Config and what follows"});
    return parsed;
  }
  Reader reader(source, directory);
  parsed.access = reader.read(*document.root);
  parsed.problems = reader.take_problems();
  return parsed;
}

}  // namespace tranche::kube

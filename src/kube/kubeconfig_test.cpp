#include <gmock/gmock.h>

#include "base/text.h"
#include "kube/access.h"

namespace tranche::kube {
namespace kubeconfig_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> texts(const std::vector<Problem>& problems) {
  std::vector<std::string> list;
  for (const auto& problem : problems) list.push_back(to_string(problem));
  return list;
}

ParsedKubeconfig parsed_of(std::string_view text, const std::string& path, const std::string& context = {}) {
  return parse_kubeconfig({{std::string(text), path}}, context);
}

std::string file(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
         "contexts:\n- name: here\n  context: {cluster: c, user: u, namespace: n}\n"
         "clusters:\n- name: other\n  cluster: {server: \"https://10.9.9.9\"}\n- name: c\n  cluster:\n" +
         cluster + "users:\n- name: u\n  user:\n" + user;
}

const char* const kCluster = "    server: https://10.0.0.1:6443\n";

TEST(Kubeconfig, TakesTheClusterAndUserOfTheCurrentContext) {
  const auto parsed = parsed_of(
      file("    server: https://10.0.0.1:6443/k/\n    certificate-authority: ca.crt\n    tls-server-name: kubernetes\n",
           "    tokenFile: /var/token\n    client-certificate: own.crt\n    client-key: /keys/own.key\n"),
      "/etc/k/conf");
  ASSERT_THAT(texts(parsed.problems), testing::IsEmpty());
  ASSERT_TRUE(parsed.access);
  EXPECT_EQ(parsed.access->server.url(), "https://10.0.0.1:6443/k");
  EXPECT_EQ(parsed.access->authorities, (Material{"", "/etc/k/ca.crt"}));
  EXPECT_EQ(parsed.access->tls_server_name, "kubernetes");
  EXPECT_EQ(parsed.access->token_file, "/var/token");
  EXPECT_EQ(parsed.access->certificate.file, "/etc/k/own.crt");
  EXPECT_EQ(parsed.access->key.file, "/keys/own.key");
  EXPECT_EQ(parsed.access->source, "/etc/k/conf");
  EXPECT_FALSE(parsed.access->insecure);
}

TEST(Kubeconfig, DataCountsBeforeAFile) {
  // "-----BEGIN X" in base64.
  const auto parsed = parsed_of(
      file(std::string(kCluster) + "    certificate-authority-data: LS0tLS1CRUdJTiBY\n    certificate-authority: x\n",
           "    token: abc.def\n"),
      "conf");
  ASSERT_TRUE(parsed.access) << join(texts(parsed.problems), "\n");
  EXPECT_EQ(parsed.access->authorities, (Material{"-----BEGIN X", ""}));
  EXPECT_EQ(parsed.access->token, "abc.def");
}

TEST(Kubeconfig, JsonIsTakenTooAndInsecureIsReportedAtItsPlace) {
  const auto parsed = parsed_of(
      R"({"kind": "Config", "current-context": "t", "clusters": [{"name": "t", "cluster": {"server": "https://127.0.0.1:6443",
"insecure-skip-tls-verify": true}}], "users": [{"name": "a", "user": {"token": "x"}}],
"contexts": [{"name": "t", "context": {"cluster": "t", "user": "a"}}]})",
      "conf");
  ASSERT_TRUE(parsed.access) << join(texts(parsed.problems), "\n");
  EXPECT_TRUE(parsed.access->insecure);
  ASSERT_EQ(parsed.problems.size(), 1u);
  EXPECT_THAT(texts(parsed.problems)[0],
              HasSubstr("conf:2:29: warning: clusters[0].cluster.insecure-skip-tls-verify: lets"));
}

TEST(Kubeconfig, EveryFaultIsReportedWithLineColumnAndWhatToWrite) {
  const auto parsed = parsed_of(file("    server: http://10.0.0.1:6443\n    certificate-authority-data: \"%%\"\n",
                                     "    exec: {apiVersion: v1, interactiveMode: Soon}\n    client-key: k\n"),
                                "conf");
  EXPECT_FALSE(parsed.access);
  EXPECT_THAT(texts(parsed.problems),
              ElementsAre(HasSubstr("conf:12:13: error: clusters[1].cluster.server: is not encrypted"),
                          HasSubstr("conf:13:33: error: clusters[1].cluster.certificate-authority-data: is not a PEM"),
                          HasSubstr("conf:17:24: error: users[0].user.exec.apiVersion: is not a version"),
                          HasSubstr("users[0].user.exec: names no command"),
                          HasSubstr("conf:17:45: error: users[0].user.exec.interactiveMode: must be Never"),
                          HasSubstr("users[0].user: has a client certificate without its key")));
  for (const auto& problem : parsed.problems) EXPECT_NE(problem.remedy, "");
}

TEST(Kubeconfig, ANameThatLeadsNowhereIsReportedWithTheOneThatIsMeant) {
  auto text = file(kCluster, "    token: x\n");
  text.replace(text.find("cluster: c,"), 11, "cluster: oter,");
  const auto parsed = parsed_of(text, "conf");
  EXPECT_FALSE(parsed.access);
  ASSERT_EQ(parsed.problems.size(), 1u);
  EXPECT_THAT(texts(parsed.problems)[0],
              HasSubstr("conf:6:22: error: contexts[0].context.cluster: names the cluster \"oter\", which is not among "
                        "clusters; did you mean other?"));
}

const char* const kTwo =
    "contexts:\n- {name: there, context: {cluster: d, user: v}}\n- {name: here, context: {cluster: d, user: v}}\n"
    "clusters:\n- {name: d, cluster: {server: \"https://10.0.0.2\", certificate-authority: ca}}\n"
    "- {name: c, cluster: {server: \"https://10.0.0.3\"}}\n"
    "users:\n- {name: v, user: {token: of-v}}\n";

TEST(Kubeconfig, OfSeveralFilesTheFirstEntryOfAName) {
  const std::vector<KubeconfigFile> files{{"", "/a/empty"}, {file(kCluster, "    token: x\n"), "/a/1"}, {kTwo, "/b/2"}};
  const auto first = parse_kubeconfig(files);
  ASSERT_TRUE(first.access) << join(texts(first.problems), "\n");
  EXPECT_EQ(first.access->server.url(), "https://10.0.0.1:6443");
  EXPECT_EQ(first.access->source, "/a/empty:/a/1:/b/2");
  const auto other = parse_kubeconfig(files, "there");
  ASSERT_TRUE(other.access) << join(texts(other.problems), "\n");
  EXPECT_EQ(other.access->server.url(), "https://10.0.0.2:443");
  EXPECT_EQ(other.access->token, "of-v");
  EXPECT_EQ(other.access->authorities.file, "/b/ca");
  EXPECT_THAT(
      texts(parse_kubeconfig(files, "ther").problems),
      ElementsAre(HasSubstr("error: --context: names the context \"ther\", which is not among contexts; did you "
                            "mean there?")));
}

TEST(Kubeconfig, ACredentialProgramIsReadAndATokenMakesItSuperfluous) {
  const std::string exec =
      "    exec:\n      apiVersion: client.authentication.k8s.io/v1beta1\n      command: bin/get-token\n"
      "      args: [eks, \"5\"]\n      env: [{name: A, value: b}]\n      interactiveMode: Never\n"
      "      provideClusterInfo: true\n      installHint: install it\n";
  const auto parsed = parsed_of(file(kCluster, exec), "/etc/k/conf");
  ASSERT_TRUE(parsed.access) << join(texts(parsed.problems), "\n");
  EXPECT_EQ(parsed.access->program, (CredentialProgram{"client.authentication.k8s.io/v1beta1",
                                                       {"/etc/k/bin/get-token", "eks", "5"},
                                                       {{"A", "b"}},
                                                       CredentialProgram::Input::kNever,
                                                       true,
                                                       "install it"}));
  EXPECT_FALSE(parsed_of(file(kCluster, exec + "    token: x\n"), "conf").access->program);
}

Access with_program() {
  Access access;
  access.server = parse_server("https://10.0.0.1:6443").value_or(Server{});
  access.authorities.pem = "-----BEGIN X";
  access.program = CredentialProgram{"client.authentication.k8s.io/v1", {"aws"}, {}, {}, true, ""};
  return access;
}

TEST(CredentialProgram, IsToldTheClusterIfItAsks) {
  auto access = with_program();
  EXPECT_EQ(credential_request(access, *access.program, true),
            R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":true,)"
            R"("cluster":{"server":"https://10.0.0.1:6443","certificate-authority-data":"LS0tLS1CRUdJTiBY"}}})");
  access.program->cluster_info = false;
  EXPECT_EQ(credential_request(access, *access.program, false),
            R"({"apiVersion":"client.authentication.k8s.io/v1","kind":)"
            R"("ExecCredential","spec":{"interactive":false}})");
}

std::string printed(const std::string& status) {
  return R"({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {)" + status + "}}";
}

TEST(CredentialProgram, GivesATokenOrACertificateUntilATime) {
  auto access = with_program();
  ASSERT_TRUE(read_credential(printed(R"("token": "t1", "expirationTimestamp": "1970-01-01T02:00:10.25+02:00")"),
                              *access.program, access));
  EXPECT_EQ(access.token, "t1");
  EXPECT_EQ(access.expires, WallTime{} + std::chrono::seconds(10));
  ASSERT_TRUE(
      read_credential(printed(R"("clientCertificateData": "c", "clientKeyData": "k")"), *access.program, access));
  EXPECT_EQ(access.certificate.pem, "c");
  EXPECT_EQ(access.key.pem, "k");
  EXPECT_EQ(access.expires, std::nullopt);
}

TEST(CredentialProgram, OtherOutputIsRefusedWithTheReason) {
  const std::pair<std::string, const char*> cases[] = {
      {"Please log in", "did not print an ExecCredential"},
      {R"({"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential"})", "did not print"},
      {printed(""), "neither a token"},
      {printed(R"("clientKeyData": "k", "token": "t")"), "without its key"},
      {printed(R"("token": "a\nX-Evil: 1")"), "characters that no token has"},
      {printed(R"("token": "t", "expirationTimestamp": "tomorrow")"), "which is not a time"},
      {printed(R"("token": "t", "expirationTimestamp": "2026-01-01T00:00:00.5")"), "which is not a time"}};
  for (const auto& [text, why] : cases) {
    auto access = with_program();
    const auto read = read_credential(text, *access.program, access);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().what, HasSubstr(why));
  }
}

TEST(Kubeconfig, SomethingElseIsReportedToBeNone) {
  for (const char* text : {"", "[]", "a: b: c", "kind: Pod\ncurrent-context: x", "x: 1"}) {
    const auto parsed = parsed_of(text, "conf");
    EXPECT_FALSE(parsed.access) << text;
    EXPECT_TRUE(has_error(parsed.problems)) << text;
  }
}

TEST(Kubeconfig, ATokenInSeveralLinesIsRefusedSinceItWouldBecomeAHeaderOfItsOwn) {
  const auto parsed = parsed_of(file(kCluster, "    token: \"a\\nX-Evil: 1\"\n"), "conf");
  EXPECT_FALSE(parsed.access);
}

TEST(ServerAddress, HostsPortsAndPathsAreTaken) {
  EXPECT_EQ(parse_server("https://k8s.example.org").value_or(Server{}).url(), "https://k8s.example.org:443");
  EXPECT_EQ(parse_server("https://[fd00::1]:6443/a/b/").value_or(Server{}).url(), "https://[fd00::1]:6443/a/b");
  EXPECT_EQ(parse_server("http://127.0.0.1:8001").value_or(Server{}).url(), "http://127.0.0.1:8001");
  EXPECT_EQ(parse_server("http://[::1]").value_or(Server{}).url(), "http://[::1]:80");
}

TEST(ServerAddress, WhatCouldLeadElsewhereIsRefused) {
  for (const char* text :
       {"", "10.0.0.1", "ftp://x", "https://", "https://user@host", "https://a b", "https://a:0", "https://a:99999",
        "https://a:6443x", "https://[::1", "http://10.0.0.1", "https://a/?x", "https://a\n"})
    EXPECT_FALSE(parse_server(text)) << text;
}

TEST(Base64, ReadsWhatIsWellFormedAndNothingElse) {
  EXPECT_EQ(base64_decoded("TQ=="), "M");
  EXPECT_EQ(base64_decoded("TWE="), "Ma");
  EXPECT_EQ(base64_decoded("TWFu\nTWFu"), "ManMan");
  EXPECT_EQ(base64_decoded(""), "");
  for (const char* text : {"T", "TQ", "TQ=", "TQ==TQ==", "=", "====", "T=Q=", "T*==", "TWFu="})
    EXPECT_EQ(base64_decoded(text), std::nullopt) << text;
  EXPECT_EQ(base64_encoded("M"), "TQ==");
  EXPECT_EQ(base64_encoded("Ma"), "TWE=");
  EXPECT_EQ(base64_encoded("Man\xff"), "TWFu/w==");
  EXPECT_EQ(base64_encoded(""), "");
}

TEST(AccessInPod, IsTheServiceAccountsAndAnIpv6HostGetsItsBrackets) {
  const auto all = [](const std::string&) { return true; };
  const auto access =
      access_in_pod({{"KUBERNETES_SERVICE_HOST", "fd00:10::1"}, {"KUBERNETES_SERVICE_PORT", "443"}}, all, "/sa");
  ASSERT_TRUE(access) << to_string(access.error());
  EXPECT_EQ(access->server.url(), "https://[fd00:10::1]:443");
  EXPECT_EQ(access->token_file, "/sa/token");
  EXPECT_EQ(access->authorities.file, "/sa/ca.crt");
}

TEST(AccessInPod, SaysWhatIsMissing) {
  const auto none = [](const std::string&) { return false; };
  const auto no_ca = [](const std::string& path) { return path.ends_with("token"); };
  const config::Environment pod{{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
  EXPECT_THAT(access_in_pod({}, none).error().what, HasSubstr("--kubeconfig"));
  EXPECT_THAT(access_in_pod(pod, none).error().what, HasSubstr("automountServiceAccountToken"));
  EXPECT_THAT(access_in_pod(pod, no_ca).error().what, HasSubstr("certificate authority"));
  EXPECT_FALSE(access_in_pod({{"KUBERNETES_SERVICE_HOST", "evil/../x"}}, [](const std::string&) { return true; }));
}

}  // namespace kubeconfig_test
}  // namespace tranche::kube

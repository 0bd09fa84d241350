#include "kube/client/find_access.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "os/files/scratch_fixture.h"

namespace tranche::kube {
namespace find_access_test {

using ::testing::HasSubstr;

class PersonsKubeconfig : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { std::ofstream(scratch_ / name) << text; }
  std::string read(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(scratch_ / name).rdbuf();
    return text.str();
  }
  // A kubeconfig whose user has a credential program: a shell script.
  void write_config(const std::string& script, const std::string& more = "") {
    write("config",
          "current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
          "clusters: [{name: x, cluster: {server: \"https://10.0.0.1\"}}]\nusers:\n- name: x\n  user:\n    exec:\n"
          "      apiVersion: client.authentication.k8s.io/v1\n      command: ./plugin\n"
          "      env: [{name: OWN, value: given}]\n" +
              more);
    write("plugin", "#!/bin/sh\necho run >> " + (scratch_ / "runs") + "\n" + script);
    ::chmod((scratch_ / "plugin").c_str(), 0755);
  }
  static std::string prints(const std::string& status) {
    return R"(echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {)" + status +
           "}}'\n";
  }
  PersonsAccess person() { return {{scratch_ / "config", ""}, {{"PATH", "/usr/bin:/bin"}}}; }

  os::Scratch scratch_;
};

TEST_F(PersonsKubeconfig, TheProgramRunsOnceWithItsVariablesUntilItsTokenExpires) {
  write_config("printf '%s %s' \"$OWN\" \"$KUBERNETES_EXEC_INFO\" > " + (scratch_ / "seen") + "\necho noise >&2\n" +
               prints(R"("token": "t1", "expirationTimestamp": "2999-01-01T00:00:00Z")"));
  auto access = person();
  for (int i = 0; i < 2; ++i) {
    const auto got = access.get();
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(got->token, "t1");
  }
  EXPECT_EQ(read("runs"), "run\n");
  EXPECT_THAT(read("seen"),
              HasSubstr(R"(given {"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential")"));
  access.refused();
  EXPECT_TRUE(access.get());
  EXPECT_EQ(read("runs"), "run\nrun\n");
}

TEST_F(PersonsKubeconfig, AnExpiredTokenIsAskedForAgain) {
  write_config(prints(R"("token": "t1", "expirationTimestamp": "2001-01-01T00:00:00Z")"));
  auto access = person();
  EXPECT_TRUE(access.get());
  EXPECT_TRUE(access.get());
  EXPECT_EQ(read("runs"), "run\nrun\n");
}

TEST_F(PersonsKubeconfig, AProgramThatFailsIsNamedWithItsHint) {
  write_config("exit 3\n");
  EXPECT_THAT(to_string(person().get().error()),
              HasSubstr("plugin of the kubeconfig gave no credentials: it exited with status 3"));
  write_config(prints(""));
  EXPECT_THAT(to_string(person().get().error()), HasSubstr("neither a token nor a client certificate"));
  write_config("", "      installHint: get it from x\n");
  auto text = read("config");
  text.replace(text.find("./plugin"), 8, "no-such-program");
  write("config", text);
  EXPECT_THAT(to_string(person().get().error()), HasSubstr("the program is not in PATH. get it from x"));
}

TEST_F(PersonsKubeconfig, AnUnattendedProgramDoesNotRunIt) {
  write_config(prints(R"("token": "t1")"));
  std::vector<Problem> problems;
  EXPECT_THAT(to_string(find_access(scratch_ / "config", {}, problems).error()), HasSubstr("write token, tokenFile"));
  EXPECT_EQ(read("runs"), "");
}

TEST_F(PersonsKubeconfig, IsFoundInTheOrderOfKubectl) {
  const auto source = [](PersonsAccess access) {
    const auto got = access.get();
    return got ? got->source : to_string(got.error());
  };
  const std::string some =
      "current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
      "clusters: [{name: x, cluster: {server: \"https://10.0.0.1\"}}]\nusers: [{name: x, user: {token: t}}]\n";
  for (const char* name : {"flag", "a", "b"}) write(name, some);
  ::mkdir((scratch_ / ".kube").c_str(), 0700);
  write(".kube/config", some);
  const std::string list = (scratch_ / "a") + ":" + (scratch_ / "absent") + "::" + (scratch_ / "b");
  const config::Environment home{{"HOME", scratch_ / ""}};
  EXPECT_EQ(source({{scratch_ / "flag", ""}, {{"KUBECONFIG", list}}}), scratch_ / "flag");
  EXPECT_EQ(source({{}, {{"KUBECONFIG", list}, {"HOME", scratch_ / ""}}}), (scratch_ / "a") + ":" + (scratch_ / "b"));
  EXPECT_THAT(source({{}, home}), HasSubstr("/.kube/config"));
  EXPECT_THAT(source({{scratch_ / "absent", ""}, home}), HasSubstr("cannot be read"));
  EXPECT_THAT(source({{(scratch_ / "absent") + ":" + (scratch_ / "gone"), ""}, home}),
              HasSubstr("none of the kubeconfig"));
  EXPECT_THAT(source({{}, {}}), HasSubstr("not in a pod"));
}

}  // namespace find_access_test
}  // namespace tranche::kube

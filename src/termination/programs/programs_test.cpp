// tranche-drain and tranche-runtime as programs: against a drain socket of the test.
#include <elf.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "base/text.h"
#include "os/files/scratch.h"
#include "os/process/process.h"
#include "os/socket/unix_socket.h"
#include "sanitized.h"

namespace tranche {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Answers each request with the same bytes; without bytes it does not answer.
class Drains {
 public:
  Drains(const std::string& path, std::string answer) : answer_(std::move(answer)), fd_(*host::listen_at(path)) {
    thread_ = std::thread([this] { serve(); });
  }
  ~Drains() {
    ::shutdown(fd_.get(), SHUT_RDWR);
    thread_.join();
  }
  Drains(const Drains&) = delete;
  Drains& operator=(const Drains&) = delete;
  std::string asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  void serve() {
    pollfd wait{fd_.get(), POLLIN, 0};
    while (::poll(&wait, 1, -1) > 0 && (wait.revents & POLLHUP) == 0) {
      host::Fd client(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (client.get() < 0) continue;
      char bytes[64];
      const auto got = ::recv(client.get(), bytes, sizeof bytes, 0);
      const std::lock_guard lock(mutex_);
      asked_.append(bytes, got > 0 ? static_cast<std::size_t>(got) : 0);
      if (!answer_.empty() && ::send(client.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL) < 0) continue;
      if (answer_.empty()) kept_.push_back(std::move(client));
    }
  }
  std::string answer_;
  host::Fd fd_;
  std::mutex mutex_;
  std::string asked_;
  std::vector<host::Fd> kept_;
  std::thread thread_;
};

constexpr const char* kDone = "{\"ok\":true,\"clients\":[],\"tookMs\":1}\n";

struct Ran {
  int status = -1;
  std::vector<std::string> lines;
  Duration took{};
};

class SmallPrograms : public ::testing::Test {
 protected:
  Ran run(const std::string& program, std::vector<std::string> arguments, std::map<std::string, std::string> env = {}) {
    arguments.insert(arguments.begin(), std::string(std::getenv("TRANCHE_BUILD")) + "/bin/" + program);
    env.try_emplace("PATH", "/usr/bin:/bin");
    auto loop = *host::Loop::open();
    Ran ran;
    const auto began = std::chrono::steady_clock::now();  // before the program can have started
    auto process = host::Process::start(
        *loop, {.argv = arguments, .env = env, .kill_on_drop = true},
        [&](const std::string& line) { ran.lines.push_back(line); },
        [&](host::ExitNote note) {
          ran.status = note.signalled ? 128 + note.code : note.code;
          loop->stop();
        });
    EXPECT_TRUE(process) << to_string(process.error());
    if (!process) return ran;
    loop->run();
    ran.took = std::chrono::steady_clock::now() - began;
    return ran;
  }
  std::string socket() const { return scratch_ / "drain"; }
  host::Scratch scratch_;
};

class DrainProgram : public SmallPrograms {
 protected:
  Ran drain(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--socket", socket()});
    return run("tranche-drain", std::move(arguments));
  }
};

// Promise: stop: `tranche-drain` asks and prints the result.
TEST_F(DrainProgram, AsksAndSaysWhatCameOfIt) {
  Drains drains(socket(), kDone);
  const auto ran = drain({});
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.lines, ElementsAre(StartsWith("tranche-drain: drained: {\"ok\":true")));
  EXPECT_EQ(drains.asked(), "drain\n");
}

// Promise: stop: `tranche-drain` runs the user's hook first and returns its status.
TEST_F(DrainProgram, RunsTheUsersOwnHookFirstAndGivesItsStatus) {
  Drains drains(socket(), kDone);
  const auto ran = drain({"--", "/bin/sh", "-c", "echo mine; exit 3"});
  EXPECT_EQ(ran.status, 3);
  EXPECT_THAT(ran.lines, ElementsAre("mine", StartsWith("tranche-drain: drained")));
  EXPECT_EQ(drain({"--", "/bin/sh", "-c", "kill -9 $$"}).status, 137);
  const auto missing = drain({"--", "/no/such/program"});
  EXPECT_EQ(missing.status, 127);
  EXPECT_THAT(missing.lines, ElementsAre(HasSubstr("cannot run /no/such/program: No such file"), HasSubstr("drained")));
}

// Promise: stop: `tranche-drain` without a socket does not fail the hook.
TEST_F(DrainProgram, WithoutASocketItSaysSoAndDoesNotFailTheHook) {
  const auto ran = drain({});
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.lines, ElementsAre(AllOf(HasSubstr("not drained"), HasSubstr(socket()), HasSubstr("No such file"))));
  EXPECT_EQ(drain({"--strict"}).status, 1);
  EXPECT_EQ(drain({"--strict", "--", "/bin/sh", "-c", "exit 3"}).status, 3) << "the user's own status comes first";
}

TEST_F(DrainProgram, WaitsForAMuteSocketNoLongerThanItsTimeout) {
  Drains drains(socket(), "");
  const auto ran = drain({"--timeout", "200ms"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.lines, ElementsAre(HasSubstr("no answer in time")));
  EXPECT_GE(ran.took, 190ms);
}

TEST_F(DrainProgram, ReportsARefusalFromADrain) {
  Drains drains(socket(), "{\"ok\":false,\"error\":\"the pool does not serve\"}\n");
  const auto ran = drain({"--strict"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.lines, ElementsAre(HasSubstr("not drained: {\"ok\":false,\"error\":\"the pool does not serve\"}")));
}

TEST_F(DrainProgram, RefusesWordsThatItDoesNotKnow) {
  const auto ran = drain({"--timeout", "soon"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.lines[0], HasSubstr("cannot use --timeout"));
}

#if !TRANCHE_SANITIZED
TEST_F(DrainProgram, NeedsNoLoaderNoLibraryAndLessThanOneMegabyte) {
  for (const char* name : {"tranche-drain", "tranche-runtime"}) {
    const auto file = host::read_file(std::string(std::getenv("TRANCHE_BUILD")) + "/bin/" + name, 1 << 20);
    ASSERT_TRUE(file) << to_string(file.error());
    Elf64_Ehdr header = {};
    ASSERT_GE(file->size(), sizeof header);
    std::memcpy(&header, file->data(), sizeof header);
    ASSERT_GE(file->size(), header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr));
    for (int at = 0; at < header.e_phnum; ++at) {
      Elf64_Phdr segment = {};
      std::memcpy(&segment, file->data() + header.e_phoff + at * sizeof segment, sizeof segment);
      EXPECT_NE(segment.p_type, static_cast<Elf64_Word>(PT_INTERP)) << name;
      EXPECT_NE(segment.p_type, static_cast<Elf64_Word>(PT_DYNAMIC)) << name;
    }
  }
}
#endif

class RuntimeProgram : public SmallPrograms {
 protected:
  // A runtime that prints its arguments.
  std::string runtime(const std::string& folder, const std::string& name, const std::string& script) {
    const auto dir = *host::Dir::create(scratch_ / folder);
    EXPECT_TRUE(dir.write_atomically(name, "#!/bin/sh\n" + script + "\n", 0755));
    return scratch_ / folder + "/" + name;
  }
  void record(const std::string& id) {
    const auto dir = *host::Dir::create(scratch_ / "run/containers");
    EXPECT_TRUE(dir.write_atomically(id, "pool=gpu-1\ngrant=00ff\ndrain=" + socket() + "\n"));
  }
  void conf(const std::string& text) {
    const auto dir = *host::Dir::open(scratch_.path());
    EXPECT_TRUE(dir.write_atomically("runtime.conf", text));
  }
  Ran call(std::vector<std::string> arguments, const std::string& path = "/usr/bin:/bin") {
    return run("tranche-runtime", std::move(arguments),
               {{"TRANCHE_RUNTIME_CONF", scratch_ / "runtime.conf"},
                {"TRANCHE_RUNTIME_LOG", scratch_ / "log"},
                {"PATH", path}});
  }
  // In the format that journald receives.
  std::vector<std::string> logged() const {
    std::vector<std::string> lines;
    char line[4096];
    for (ssize_t got = 0; (got = ::recv(log_.get(), line, sizeof line, MSG_DONTWAIT)) > 0;)
      lines.emplace_back(line, static_cast<std::size_t>(got));
    return lines;
  }
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "a configuration and a record count only when they are root's";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (scratch_ / "log").c_str());
    log_ = host::Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(log_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    runc_ = runtime("bin", "real", "echo \"$0 $*\"; exit 7");
    conf("runtime=" + runc_ + "\nrun-dir=" + scratch_ / "run" + "\n");
  }
  std::string runc_;
  host::Fd log_;
};

// The file names a program that root runs.
// Promise: stop: `tranche-runtime` trusts no file that other users may write.
TEST_F(RuntimeProgram, ReadsNoConfigurationThatOtherUsersMayWrite) {
  const auto runc = runtime("second", "runc", "echo runc");
  const std::string path = scratch_ / "second";
  const auto makes = [&] { return call({"create", "c1"}, path).lines; };
  EXPECT_THAT(makes(), ElementsAre(runc_ + " create c1"));
  EXPECT_THAT(logged(), IsEmpty());
  ASSERT_EQ(::chmod((scratch_ / "runtime.conf").c_str(), 0666), 0);
  EXPECT_THAT(makes(), ElementsAre("runc"));
  EXPECT_THAT(logged(), ElementsAre(AllOf(StartsWith("<28>tranche-runtime: "), HasSubstr("runtime.conf: is not read"),
                                          HasSubstr("containers are made by runc of PATH"))));
  conf("runtime=" + runc_ + "\n");
  ASSERT_EQ(::chmod(scratch_.path().c_str(), 0777), 0);
  EXPECT_THAT(makes(), ElementsAre("runc")) << "its folder";
  ASSERT_EQ(::chmod(scratch_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chown((scratch_ / "runtime.conf").c_str(), 65534, 0), 0);
  EXPECT_THAT(makes(), ElementsAre("runc")) << "its owner";
  EXPECT_THAT(call({"state", "c1"}, path).lines, ElementsAre("runc"));
  EXPECT_EQ(logged().size(), 2u) << "once for each container";
}

TEST_F(RuntimeProgram, ATypoInTheConfigurationIsLoggedWithWhatHappensToContainers) {
  (void)runtime("second", "runc", "echo runc");
  for (const auto& [text, what] : std::map<std::string, std::string>{
           {"runtime=/usr/bin/nvidia-container-rutime\n",
            "/usr/bin/nvidia-container-rutime cannot be executed as the OCI runtime (No such file or directory)"},
           {"runtime=nvidia\n", "nvidia is neither a known key nor an absolute path"},
           {"runtme=/usr/bin/runc\n", "runtme is neither a known key"}}) {
    conf(text);
    EXPECT_THAT(call({"--root", "/r", "create", "--bundle", "/b", "c1"}, scratch_ / "second").lines,
                ElementsAre("runc"));
    EXPECT_THAT(logged(), ElementsAre(AllOf(HasSubstr(what), HasSubstr("GPU containers which need NVIDIA's runtime"))));
  }
}

// Promise: stop: `tranche-runtime` passes every other call on unchanged.
TEST_F(RuntimeProgram, HandsEveryOtherCallOnUntouchedAndSilently) {
  Drains drains(socket(), kDone);
  record("c1");
  const auto ran = call({"--root", "/r", "state", "c1"});
  EXPECT_EQ(ran.status, 7);
  EXPECT_THAT(ran.lines, ElementsAre(runc_ + " --root /r state c1"));
  EXPECT_EQ(drains.asked(), "");
}

// Promise: stop: `tranche-runtime` ends clients before it kills a container with a grant.
TEST_F(RuntimeProgram, DrainsBeforeAKillOfAContainerThatHoldsAGrant) {
  if (::geteuid() != 0) GTEST_SKIP() << "a record counts only when it is root's";
  Drains drains(socket(), kDone);
  record("c1");
  const auto ran = call({"--root", "/r", "--log-format", "json", "kill", "--all", "c1", "15"});
  EXPECT_EQ(ran.status, 7);
  EXPECT_THAT(ran.lines, ElementsAre(runc_ + " --root /r --log-format json kill --all c1 15"));
  EXPECT_EQ(drains.asked(), "drain 15\n");
}

TEST_F(RuntimeProgram, KillsOtherContainersAtOnce) {
  Drains drains(socket(), kDone);
  record("c1");
  EXPECT_EQ(call({"kill", "c2", "9"}).status, 7);
  EXPECT_EQ(drains.asked(), "");
}

// Promise: stop: `tranche-runtime` waits no longer than its patience.
TEST_F(RuntimeProgram, IsHeldUpByAMuteDrainForNoLongerThanItsPatience) {
  if (::geteuid() != 0) GTEST_SKIP() << "a record counts only when it is root's";
  Drains drains(socket(), "");
  record("c1");
  const auto ran = call({"kill", "c1", "15"});
  EXPECT_EQ(ran.status, 7);
  EXPECT_GE(ran.took, 290ms);
  EXPECT_THAT(ran.lines, ElementsAre(runc_ + " kill c1 15"));
}

// Promise: stop: `tranche-runtime` trusts no file that other users may write.
TEST_F(RuntimeProgram, TrustsNoRecordThatOthersMayWrite) {
  if (::geteuid() != 0) GTEST_SKIP() << "a record counts only when it is root's";
  Drains drains(socket(), kDone);
  record("c1");
  ASSERT_EQ(::chmod((scratch_ / "run/containers/c1").c_str(), 0666), 0);
  EXPECT_EQ(call({"kill", "c1", "15"}).status, 7);
  EXPECT_EQ(drains.asked(), "");
}

TEST_F(RuntimeProgram, WithoutAConfigurationFindsRuncInPathAndNotItself) {
  conf("");
  const auto self = std::string(std::getenv("TRANCHE_BUILD")) + "/bin/tranche-runtime";
  const auto first = *host::Dir::create(scratch_ / "first");
  ASSERT_EQ(::symlink(self.c_str(), (scratch_ / "first/runc").c_str()), 0);
  const auto runc = runtime("second", "runc", "echo \"$0 $*\"");
  EXPECT_THAT(call({"state", "c1"}, scratch_ / "first:" + scratch_ / "second").lines, ElementsAre(runc + " state c1"));
}

TEST_F(RuntimeProgram, AScriptThatLeadsBackDoesNotLoop) {
  const auto self = std::string(std::getenv("TRANCHE_BUILD")) + "/bin/tranche-runtime";
  conf("runtime=" + runtime("bin", "back", "exec " + self + " \"$@\"") + "\n");
  const auto runc = runtime("second", "runc", "echo \"$0 $*\"");
  EXPECT_THAT(call({"state", "c1"}, scratch_ / "second").lines, ElementsAre(runc + " state c1"));
  (void)runtime("third", "runc", "exec " + self + " \"$@\"");
  const auto ran = call({"state", "c1"}, scratch_ / "third");
  EXPECT_EQ(ran.status, 127);
  EXPECT_THAT(ran.lines, ElementsAre(HasSubstr("leads back here")));
}

}  // namespace
}  // namespace tranche

// tranche-drain as a program: against a drain socket of the test.
#include <elf.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
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

class DrainProgram : public ::testing::Test {
 protected:
  Ran drain(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {std::string(std::getenv("TRANCHE_BUILD")) + "/bin/tranche-drain", "--socket", socket()});
    auto loop = *host::Loop::open();
    Ran ran;
    const auto began = std::chrono::steady_clock::now();  // before the program can have started
    auto process = host::Process::start(
        *loop, {.argv = arguments, .env = {{"PATH", "/usr/bin:/bin"}}, .kill_on_drop = true},
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
  const auto file = host::read_file(std::string(std::getenv("TRANCHE_BUILD")) + "/bin/tranche-drain", 1 << 20);
  ASSERT_TRUE(file) << to_string(file.error());
  Elf64_Ehdr header = {};
  ASSERT_GE(file->size(), sizeof header);
  std::memcpy(&header, file->data(), sizeof header);
  ASSERT_GE(file->size(), header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr));
  for (int at = 0; at < header.e_phnum; ++at) {
    Elf64_Phdr segment = {};
    std::memcpy(&segment, file->data() + header.e_phoff + at * sizeof segment, sizeof segment);
    EXPECT_NE(segment.p_type, static_cast<Elf64_Word>(PT_INTERP));
    EXPECT_NE(segment.p_type, static_cast<Elf64_Word>(PT_DYNAMIC));
  }
}
#endif

}  // namespace
}  // namespace tranche

// tranche-drain as a program.
#include <elf.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "os/process/process.h"
#include "sanitized.h"

namespace tranche {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string program() {
  return std::string(std::getenv("TRANCHE_BUILD")) + "/bin/tranche-drain";
}

struct Ran {
  int status = -1;
  std::vector<std::string> lines;
};

Ran drain(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program());
  auto loop = *os::Loop::open();
  Ran ran;
  auto process = os::Process::start(
      *loop, {.argv = arguments, .env = {{"PATH", "/usr/bin:/bin"}}, .kill_on_drop = true},
      [&](const std::string& line) { ran.lines.push_back(line); },
      [&](os::ExitNote note) {
        ran.status = note.signalled ? 128 + note.code : note.code;
        loop->stop();
      });
  EXPECT_TRUE(process) << to_string(process.error());
  if (process) loop->run();
  return ran;
}

// Promise: stop: `tranche-drain` does nothing, whatever options of earlier versions a hook gives it.
TEST(DrainProgram, DoesNothingWithAnyOfItsFormerOptions) {
  for (const auto& options : std::vector<std::vector<std::string>>{{},
                                                                   {"--"},
                                                                   {"--strict"},
                                                                   {"--timeout", "5s", "--socket", "/nowhere"},
                                                                   {"-timeout=5s", "--socket=/nowhere"}}) {
    const auto ran = drain(options);
    EXPECT_EQ(ran.status, 0);
    EXPECT_THAT(ran.lines, IsEmpty());
  }
}

// Promise: stop: `tranche-drain` runs the user's own hook and returns its status.
TEST(DrainProgram, RunsTheUsersOwnHookAndGivesItsStatus) {
  const auto ran = drain({"--strict", "--timeout=5s", "--", "sh", "-c", "echo $0; exit 3", "--help"});
  EXPECT_EQ(ran.status, 3);
  EXPECT_THAT(ran.lines, ElementsAre("--help"));
  const auto missing = drain({"--", "/no/such/program"});
  EXPECT_EQ(missing.status, 127);
  EXPECT_THAT(missing.lines, ElementsAre("tranche-drain: cannot run /no/such/program: No such file or directory"));
  EXPECT_EQ(drain({"--", "/"}).status, 126);
}

TEST(DrainProgram, SaysThatItIsNoLongerNeeded) {
  const auto help = drain({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(join(help.lines, "\n"), AllOf(HasSubstr("No longer needed"), HasSubstr("preStop hook")));
  EXPECT_THAT(drain({"--version"}).lines, ElementsAre(StartsWith("tranche-drain ")));
}

#if !TRANCHE_SANITIZED
TEST(DrainProgram, NeedsNoLoaderNoLibraryAndLessThanOneMegabyte) {
  const auto file = os::read_file(program(), 1 << 20);
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

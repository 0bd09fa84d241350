#include "termination/survival.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace tranche::stopping {
namespace {

using ::testing::HasSubstr;

constexpr int kTerm = 15;
constexpr const char* kAsleep = "61 0xffffffff 0x7ffd 0x0 0x0 0x0 0x0 0x7ffc 0x7f00\n";  // wait4 on x86-64

struct Shape {
  std::string nspid = "4711\t1";
  std::string caught = "0000000000000000";
  std::string ignored = "0000000000000000";
  std::string blocked = "0000000000000000";
  std::string tracer = "0";
  std::string syscall = kAsleep;
  int threads = 1;
};

ProcessTexts texts(const Shape& shape) {
  const std::string status = fmt::format(
      "Name:\tsh\nState:\tS "
      "(sleeping)\nPPid:\t4000\nTracerPid:\t{}\nNSpid:\t{}\nThreads:\t{}\nSigBlk:\t{}\nSigIgn:\t{}\n"
      "SigCgt:\t{}\n",
      shape.tracer, shape.nspid, shape.threads, shape.blocked, shape.ignored, shape.caught);
  ProcessTexts init{status, {}};
  for (int n = 0; n < shape.threads; ++n) init.threads.push_back({status, shape.syscall});
  return init;
}

Survival judge(const Shape& shape, Machine machine = Machine::kX86_64, int signal = kTerm) {
  return survives(texts(shape), signal, machine);
}

// Promise: stop: PID 1 of a container survives a stop signal for which it has no handler.
TEST(Surviving, PidOneWithoutAHandlerDoes) {
  EXPECT_TRUE(judge({}).survives);
  EXPECT_TRUE(judge({.caught = "0000000000010002"}).survives) << "a shell: SIGINT and SIGCHLD";
  EXPECT_TRUE(judge({.ignored = "0000000000004000"}).survives);
  EXPECT_TRUE(judge({.threads = 3}).survives);
}

// Promise: stop: PID 1 with a handler, a mask or a tracer counts as a process that may die.
TEST(Surviving, AHandlerAMaskOrATracerDoesNot) {
  EXPECT_FALSE(judge({.caught = "0000000000004000"}).survives);
  EXPECT_FALSE(judge({.blocked = "0000000000004000"}).survives);
  EXPECT_FALSE(judge({.tracer = "17"}).survives);
}

TEST(Surviving, OtherThanPidOneOfItsOwnNamespaceDoesNot) {
  for (const char* nspid : {"4711", "4711\t7", "4711\t50\t1", "", "x\t1", "4711\t1\tx"})
    EXPECT_FALSE(judge({.nspid = nspid}).survives) << nspid;
}

TEST(Surviving, OneThreadIsEnoughToTakeTheSignal) {
  auto init = texts({.threads = 2});
  init.threads[1].status = texts({.blocked = "0000000000004000", .threads = 2}).status;
  EXPECT_FALSE(survives(init, kTerm, Machine::kX86_64).survives);
}

TEST(Surviving, SigwaitShowsInTheCallOnly) {
  const std::string wait = "128 0x7ffd 0x0 0x0 0x8 0x0 0x0 0x7ffc 0x7f00\n";
  EXPECT_THAT(judge({.syscall = wait}).why, HasSubstr("rt_sigtimedwait"));
  EXPECT_FALSE(judge({.syscall = wait}).survives);
  EXPECT_FALSE(judge({.syscall = "137 0x7ffd 0x0 0x0 0x8 0x0 0x0 0x7ffc 0x7f00"}, Machine::kArm64).survives);
  EXPECT_FALSE(judge({.syscall = "177 0x7ffd 0x0 0x0 0x8 0x0 0x0 0x7ffc 0x7f00"}).survives) << "a 32-bit program";
}

TEST(Surviving, ACallThatSwapsTheMaskIsDoubtAndWithoutAMaskItIsNot) {
  EXPECT_FALSE(judge({.syscall = "271 0x7ffd 0x1 0x0 0x7ffe 0x8 0x0 0x7ffc 0x7f00"}).survives);
  EXPECT_TRUE(judge({.syscall = "271 0x7ffd 0x1 0x0 0x0 0x8 0x0 0x7ffc 0x7f00"}).survives);
  EXPECT_TRUE(judge({.syscall = "22 0x5 0x1 0x0 0x0 0x0 0x8 0x7ffc 0x7f00"}, Machine::kArm64).survives);
  EXPECT_FALSE(judge({.syscall = "22 0x5 0x1 0x0 0x0 0x7 0x8 0x7ffc 0x7f00"}, Machine::kArm64).survives);
}

// asm/unistd.h of each machine; the number of the argument that is the mask, 0 if the call alone is doubtful.
TEST(Surviving, EveryCallThatTakesSignalsIsKnownByItsNumber) {
  struct Row {
    Machine machine;
    int number, mask;
  };
  using enum Machine;
  for (const Row& row :
       {Row{kX86_64, 128, 0}, Row{kX86_64, 130, 0}, Row{kX86_64, 270, 6}, Row{kX86_64, 271, 4}, Row{kX86_64, 281, 5},
        Row{kX86_64, 333, 6}, Row{kX86_64, 426, 5}, Row{kX86_64, 441, 5}, Row{kX86_64, 177, 0}, Row{kX86_64, 421, 0},
        Row{kArm64, 137, 0},  Row{kArm64, 133, 0},  Row{kArm64, 72, 6},   Row{kArm64, 73, 4},   Row{kArm64, 22, 5},
        Row{kArm64, 292, 6},  Row{kArm64, 426, 5},  Row{kArm64, 441, 5},  Row{kArm64, 177, 0},  Row{kArm64, 421, 0}}) {
    const auto call = [&row](bool masked) {
      std::string text = std::to_string(row.number);
      for (int argument = 1; argument <= 6; ++argument) text += masked && argument == row.mask ? " 0x7ffe" : " 0x0";
      return text + " 0x7ffc 0x7f00\n";
    };
    EXPECT_FALSE(judge({.syscall = call(true)}, row.machine).survives) << row.number;
    EXPECT_EQ(judge({.syscall = call(false)}, row.machine).survives, row.mask != 0) << row.number;
  }
}

// Promise: stop: Missing information counts as a process that may die.
TEST(Surviving, WhateverIsMissingIsDoubt) {
  EXPECT_FALSE(judge({.syscall = "running\n"}).survives);
  EXPECT_FALSE(judge({.syscall = ""}).survives);
  EXPECT_FALSE(judge({.syscall = "61\n"}).survives);
  EXPECT_FALSE(judge({.caught = ""}).survives);
  EXPECT_FALSE(judge({.blocked = "zz"}).survives);
  EXPECT_FALSE(judge({.threads = 0}).survives);
  EXPECT_FALSE(survives({}, kTerm, Machine::kX86_64).survives);
  EXPECT_FALSE(judge({}, Machine::kOther).survives);
  auto fewer = texts({.threads = 2});
  fewer.threads.pop_back();
  EXPECT_FALSE(survives(fewer, kTerm, Machine::kX86_64).survives);
}

TEST(Surviving, ThreadsAreNeededOnlyWhereTheProcessDoesNotShowIt) {
  using enum ThreadsNeeded;
  const std::string mask = "0000000000004000", beside = "4711\t7";
  const auto needed = [](const Shape& shape, bool is_client, bool is_first, int signal = kTerm) {
    return threads_needed(texts(shape).status, is_client, is_first, signal);
  };
  EXPECT_EQ(needed({.nspid = beside, .caught = mask, .blocked = mask}, true, false), kNone);
  EXPECT_EQ(needed({.nspid = beside, .ignored = mask, .blocked = mask}, true, false), kNone);
  EXPECT_EQ(needed({.nspid = beside}, true, false), kNone) << "its first thread takes the signal";
  EXPECT_EQ(needed({.nspid = beside, .blocked = mask}, true, false), kMasks);
  EXPECT_EQ(needed({.nspid = beside, .blocked = mask}, true, false, 0), kMasks) << "SIGTERM is assumed";
  EXPECT_EQ(needed({.nspid = beside, .blocked = mask}, false, true), kMasks) << "a first process in the host's pids";
  EXPECT_EQ(needed({.blocked = mask}, true, true), kNone) << "PID 1 as a client lives by its place";
  EXPECT_EQ(needed({.caught = mask}, false, true), kNone);
  EXPECT_EQ(needed({.blocked = mask}, false, true), kNone);
  EXPECT_EQ(needed({}, false, true), kMasksAndCalls);
  EXPECT_EQ(needed({.ignored = mask}, false, true), kMasksAndCalls) << "it may take the signal in sigwait";
}

// Omitting them must not change the result of fate_of().
TEST(Surviving, WithoutTheThreadsThatAreNotNeededTheFateIsTheSame) {
  const std::string none = "0000000000000000", mask = "0000000000004000";
  std::vector<ProcessTexts> all;
  for (const char* nspid : {"4711\t1", "4711\t7", "4711"})
    for (const auto& caught : {none, mask})
      for (const auto& ignored : {none, mask})
        for (const auto& blocked : {none, mask})
          all.push_back(
              texts({.nspid = nspid, .caught = caught, .ignored = ignored, .blocked = blocked, .threads = 2}));
  const auto bare = [](ProcessTexts texts, bool is_client, bool is_first, int signal) {
    if (threads_needed(texts.status, is_client, is_first, signal) == ThreadsNeeded::kNone) texts.threads.clear();
    return texts;
  };
  for (const int signal : {0, kTerm})
    for (const auto& client : all) {
      const auto alone = bare(client, true, true, signal);
      EXPECT_EQ(fate_of(alone, &alone, true, signal, Machine::kX86_64).keeps_grace,
                fate_of(client, &client, true, signal, Machine::kX86_64).keeps_grace)
          << client.status;
      for (const auto& init : all) {
        const auto first = bare(init, false, true, signal);
        EXPECT_EQ(fate_of(bare(client, true, false, signal), &first, false, signal, Machine::kX86_64),
                  fate_of(client, &init, false, signal, Machine::kX86_64))
            << client.status << init.status;
      }
    }
}

TEST(Surviving, IsAboutTheContainersOwnStopSignal) {
  EXPECT_FALSE(judge({.caught = "0000000000000004"}, Machine::kX86_64, 3).survives);
  EXPECT_TRUE(judge({.caught = "0000000000000004"}).survives);
  EXPECT_FALSE(judge({}, Machine::kX86_64, 9).survives);
  EXPECT_FALSE(judge({}, Machine::kX86_64, 0).survives);
  EXPECT_TRUE(judge({}, Machine::kX86_64, 64).survives);
}

}  // namespace
}  // namespace tranche::stopping

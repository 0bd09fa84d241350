// Replays the real daemon's transcript against the stand-in: transcripts/commands.txt line by line.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "standins/mps/mps_world.h"

namespace tranche::sim {
namespace replay_test {

struct Exchange {
  std::string section;  // the "---" heading that follows it in the transcript
  std::string command;
  std::vector<std::string> answer;
};

std::vector<Exchange> read_transcript() {
  const char* source = std::getenv("TRANCHE_SOURCE");
  std::ifstream file(std::string(source == nullptr ? "." : source) + "/tests/standins/mps/transcripts/commands.txt");
  std::vector<Exchange> exchanges;
  std::size_t first_of_section = 0;
  bool in_answer = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("--- ")) {
      for (; first_of_section < exchanges.size(); ++first_of_section) {
        exchanges[first_of_section].section = line.substr(4);
      }
      in_answer = false;
    } else if (line.starts_with("> ")) {
      exchanges.emplace_back().command = line.substr(2, line.rfind(" -> ") - 2);
      in_answer = true;
    } else if (in_answer && line.ends_with("|")) {
      exchanges.back().answer.push_back(line.substr(0, line.size() - 1));
    } else {
      in_answer = false;
    }
  }
  return exchanges;
}

// Words only, because columns shift with the length of a pid; the transcript's pids are replaced by the present ones.
std::string normal(const std::string& line, const std::map<std::string, std::string>& today) {
  std::istringstream words(line);
  std::string out;
  for (std::string word; words >> word;) {
    std::string tail;
    for (const char* suffix : {".1", "!"}) {
      if (word.ends_with(suffix)) {
        tail = suffix;
        word.resize(word.size() - tail.size());
      }
    }
    const auto found = today.find(word);
    out += (out.empty() ? "" : " ") + (found == today.end() ? word : found->second) + tail;
  }
  return out;
}

class Replay : public testing::Test {
 protected:
  void replay(const std::string& section, const std::string& pipe = "") {
    int asked = 0;
    for (const auto& exchange : read_transcript()) {
      if (exchange.section != section) continue;
      ++asked;
      std::string lines;
      for (std::size_t i = 0; i < exchange.command.size(); ++i) {
        const bool line_end = exchange.command.compare(i, 2, "\\n") == 0;
        lines += line_end ? '\n' : exchange.command[i];
        i += line_end ? 1 : 0;
      }
      std::string translated;
      std::istringstream split(lines);
      for (std::string line; std::getline(split, line);) translated += normal(line, today) + "\n";
      if (!translated.empty()) translated.pop_back();
      const Reply reply = world.command(translated, pipe);
      std::string expected, got;
      for (const auto& line : exchange.answer) expected += normal(line, today) + "\n";
      std::istringstream answered(reply.text);
      for (std::string line; std::getline(answered, line);) got += normal(line, {}) + "\n";
      EXPECT_EQ(got, expected) << "> " << translated;
      EXPECT_EQ(reply.status, 0);
    }
    EXPECT_GT(asked, 0) << section;
  }

  MpsWorld world{
      "gpus:\n  - {profile: H200, uuid: GPU-00000000-0000-0000-0000-000000000000, pci: '00000000:00:06.0'}\n"};
  std::map<std::string, std::string> today;
};

TEST_F(Replay, CommandsWithoutAServer) {
  world.start_daemon();
  replay("no server");
}

TEST_F(Replay, CommandsWithAServerAndTwoClientsAndThroughAnEndpoint) {
  world.start_daemon({"-multiuser-server"});
  world.ask("set_default_active_thread_percentage 10");
  world.ask("set_default_device_pinned_mem_limit 0 500M");
  world.ask("set_default_device_pinned_mem_limit " + world.uuid() + " 4096M");
  const auto first = world.client();
  const auto second = world.client();
  ASSERT_TRUE(first.attached() && second.attached());
  EXPECT_EQ(first.number("sms"), 12u);
  EXPECT_EQ(first.number("free"), 449050224u);
  EXPECT_EQ(first.number("total"), 150109880320u);
  char space[64] = {};
  ASSERT_GT(::readlink("/proc/self/ns/pid", space, sizeof space - 1), 5);
  today = {{"840", std::to_string(world.server())},
           {"886", std::to_string(first.process->pid())},
           {"901", std::to_string(second.process->pid())},
           {"4026531836", std::to_string(std::strtoull(space + 5, nullptr, 10))},
           {"0", "0"},
           {"python3", "sim-cuda"}};
  replay("commands with server");
  // Privileges by endpoint: commands that set defaults, and quit, are refused; commands on a server are not.
  today["0."] = std::to_string(::geteuid()) + ".";
  world.make_endpoint();
  replay("endpoint", world.endpoint());
}

}  // namespace replay_test
}  // namespace tranche::sim

#include "observe/top/top.h"

#include <gmock/gmock.h>

#include <set>

#include "base/text.h"

namespace tranche::top {
namespace top_test {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* kStatus = R"({
 "node": "n1", "ready": true, "readyReason": "serving", "driver": {"version": "580.1"},
 "change": {"waitingFor": ["10 to 5 slots, waits for team/a"]},
 "guard": {"acts": [{"what": "terminate", "outcome": "done", "holder": "team/a/main", "heldMiB": 9, "limitMiB": 8}]},
 "devices": [{"index": "0", "uuid": "GPU-0", "name": "H100", "sharing": "mps", "memoryMiB": 81920, "memoryUsedMiB": 3000,
   "utilization": 70, "smActive": 47, "healthy": true, "reason": "",
   "slots": [{"holder": "team/a/main"}, {"holder": "team/b/main"}, {}, {}],
   "processes": [{"pid": 1, "memoryMiB": 1000, "grant": "ga"}, {"pid": 2, "memoryMiB": 500, "grant": "ga"},
                 {"pid": 3, "memoryMiB": 60}]},
  {"index": "1", "uuid": "GPU-1", "memoryMiB": 81920, "healthy": false, "reason": "XID 79", "slots": []}],
 "grants": [{"namespace": "team", "pod": "a", "container": "main", "grant": "ga",
             "devices": [{"uuid": "GPU-0", "slots": 1, "memoryMiB": 20480, "threads": "25"}]},
            {"namespace": "team", "pod": "b", "container": "main", "grant": "gb",
             "devices": [{"uuid": "GPU-0", "slots": 1, "memoryMiB": 1500, "threads": "25"}]},
            {"namespace": "team", "pod": "whole", "container": "main", "grant": "",
             "devices": [{"uuid": "GPU-1", "slots": 1, "memoryMiB": 0, "threads": ""}]}]})";

Node node() {
  return *read_node(kStatus);
}

std::string text_of(const std::vector<std::string>& lines) {
  return join(lines, "\n");
}

TEST(Top, ReadsWhatEachTenantUses) {
  const Node read = node();
  ASSERT_THAT(read.tenants, SizeIs(3));
  EXPECT_EQ(read.tenants[0].used_mib, 1500u);
  EXPECT_EQ(read.tenants[0].processes, 2u);
  EXPECT_EQ(read.tenants[1].used_mib, 0u) << "measured";
  EXPECT_FALSE(read.tenants[2].used_mib) << "not known";
  EXPECT_EQ(read.devices[0].held(), 2u);
  EXPECT_FALSE(read_node("[]"));
  EXPECT_TRUE(read_node(R"({"devices": 7, "grants": [3], "guard": {"acts": [null]}})")) << "absences are forgiven";
}

TEST(Top, ShowsItAllWithinTheWidth) {
  for (const int width : {40, 80, 200}) {
    const auto lines = draw(node(), {}, {.width = width, .height = 0});
    for (const auto& line : lines) EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
  }
  const auto text = text_of(draw(node(), {}, {.width = 100, .height = 0}));
  for (const char* shown : {"ready: serving", "team/a/main", "tranche top  n1  driver 580.1", "3000/81920 MiB",
                            "1500    20480", "busy  70% SMs  47%", "busy    - SMs    -", "SM LIMIT", "  25%",
                            "slots  2/4", "UNHEALTHY", "XID 79", "waits for team/a", "terminate (done) team/a/main"})
    EXPECT_THAT(text, HasSubstr(shown));
  EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << "no colour where there is no terminal";
}

TEST(Top, KeepsWithinTheHeightAndScrolls) {
  Node many = node();
  for (int i = 0; i < 100; ++i) {
    many.tenants.push_back(many.tenants[1]);
    many.tenants.back().name = "team/many-" + std::to_string(i) + "/main";
  }
  Choice choice;
  choice.sort = Sort::kName;
  EXPECT_THAT(draw(many, choice, {.width = 80, .height = 24}), SizeIs(24));
  EXPECT_THAT(text_of(draw(many, choice, {.width = 80, .height = 24})), HasSubstr("team/a/main"));
  press(choice, Key::kPageDown, 0);
  EXPECT_THAT(text_of(draw(many, choice, {.width = 80, .height = 24})), Not(HasSubstr("team/a/main ")));
  press(choice, Key::kHome, 0);
  for (int height = 1; height < 12; ++height) {
    press(choice, Key::kTab, 0);
    choice = within(many, choice, {.width = 80, .height = height});
    const auto lines = draw(many, choice, {.width = 80, .height = height});
    EXPECT_LE(lines.size(), static_cast<std::size_t>(height));
    EXPECT_THAT(lines[0], HasSubstr("tranche top"));
  }
}

TEST(Top, SortsAndFilters) {
  Choice choice;
  EXPECT_EQ(chosen(node(), choice)[0].name, "team/a/main");
  press(choice, Key::kText, 'I');
  EXPECT_EQ(chosen(node(), choice)[2].name, "team/a/main");
  press(choice, Key::kText, 'N');
  EXPECT_EQ(chosen(node(), choice)[0].name, "team/whole/main");
  press(choice, Key::kText, '/');
  for (const char c : std::string("whoq")) EXPECT_TRUE(press(choice, Key::kText, c)) << "typed, not pressed";
  press(choice, Key::kBackspace, 0);
  press(choice, Key::kEnter, 0);
  EXPECT_THAT(chosen(node(), choice), SizeIs(1));
  press(choice, Key::kEscape, 0);
  EXPECT_THAT(chosen(node(), choice), SizeIs(3));
  EXPECT_FALSE(press(choice, Key::kText, 'q'));
}

TEST(Top, ShowsTheNodesOfACluster) {
  const auto all = cluster_of({{"gpu-node-1", kStatus, ""}, {"gpu-node-2", "", "503"}, {"b", "[]", ""}});
  EXPECT_FALSE(all.ready);
  EXPECT_THAT(all.tenants, SizeIs(3));
  for (const int width : {60, 80, 200})
    for (const auto& line : draw(all, {}, {.width = width, .height = 0}))
      EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
  const auto text = text_of(draw(all, {}, {.width = 120, .height = 0}));
  for (const char* shown :
       {"cluster  NOT READY: 1 of 3 node agents ready", "gpu-node-1 [", "gpu-node-1 0  ", "slots  2/4", "GPU 1: XID 79",
        "NO ANSWER\n         503", "not a status document", "gpu-node-1: 10 to 5 slots"})
    EXPECT_THAT(text, HasSubstr(shown));
  const auto silent = text_of(draw(cluster_of({{"n", "", "503"}}), {}, {.width = 80, .height = 0}));
  EXPECT_THAT(silent, HasSubstr("] -                   slots  -    NO ANSWER"));
  EXPECT_THAT(silent, Not(HasSubstr("UNHEALTHY")));
  EXPECT_EQ(cluster_of({{"n", R"({"grants": [{"devices": [{"uuid": "u", "usedMiB": 5}]}]})", ""}}).tenants[0].used_mib,
            5u)
      << "of a page that names no process";
}

// Promise: top: Every node and every tenant of a large cluster can be scrolled to, at 80 columns too.
TEST(Top, ScrollsToEveryNodeAndTenantOfACluster) {
  std::vector<observe::AgentStatus> reports;
  for (int i = 0; i < 60; ++i)
    reports.push_back(
        {"ip-10-0-0-" + std::to_string(i) + ".eu-central-1.compute.internal", i % 7 == 0 ? "" : kStatus, "503"});
  const Node all = cluster_of(reports);
  const Screen screen{.width = 80, .height = 24};
  Choice choice;
  const auto shown = [&] {
    choice = within(all, choice, screen);
    const auto lines = draw(all, choice, screen);
    EXPECT_THAT(lines, SizeIs(24));
    for (const auto& line : lines) EXPECT_LE(line.size(), 80u) << line;
    return text_of(lines);
  };
  EXPECT_THAT(shown(), ::testing::AllOf(HasSubstr("nodes 1-"), HasSubstr("of 60"), HasSubstr("PROCS")));
  EXPECT_THAT(shown(), HasSubstr("ip-10-0-0-1.eu-central-1.compute.int.. ")) << "cut at the right";
  EXPECT_THAT(shown(), ::testing::ContainsRegex("ip-10-0-0-[0-9]+ +0 ")) << "a tenant's node and GPU";
  press(choice, Key::kTab, 0);
  std::set<std::string> nodes;
  for (int i = 0; i < 60; ++i) {
    for (const auto line : lines_of(shown()))
      if (line.starts_with("ip-")) nodes.insert(std::string(line.substr(0, line.find(' '))));
    press(choice, Key::kDown, 0);
  }
  EXPECT_THAT(nodes, SizeIs(60));
  EXPECT_THAT(shown(), HasSubstr("-60 of 60"));
  press(choice, Key::kUp, 0);
  EXPECT_THAT(shown(), Not(HasSubstr("-60 of 60"))) << "it was not scrolled beyond the end";
  press(choice, Key::kTab, 0);
  press(choice, Key::kEnd, 0);
  EXPECT_THAT(shown(), HasSubstr("-153  (h: help"));
  press(choice, Key::kHome, 0);
  EXPECT_THAT(shown(), HasSubstr("by memory  1-"));
}

TEST(Top, NodesStayDistinct) {
  const auto text = [](std::vector<observe::AgentStatus> reports) {
    return text_of(draw(cluster_of(std::move(reports)), {}, {.width = 80, .height = 0}));
  };
  const auto domains = text({{"gpu.east", kStatus, ""}, {"gpu.west", kStatus, ""}});
  for (const char* shown : {"gpu.east 0 ", "gpu.west 0 "}) EXPECT_THAT(domains, HasSubstr(shown)) << "the same host";
  const auto amazon = text({{"ip-10-0-0-0.eu-west-1.compute.internal", kStatus, ""}});
  for (const char* shown : {"ip-10-0-0-0.eu-west-1.compute.internal ", "ip-10-0-0-0 0 "})
    EXPECT_THAT(amazon, HasSubstr(shown));
  const auto addresses = text({{"10.0.0.1", kStatus, ""}, {"11.0.0.1", kStatus, ""}});
  for (const char* shown : {"10.0.0.1 0 ", "11.0.0.1 0 "}) EXPECT_THAT(addresses, HasSubstr(shown));
}

// Promise: top: No name of a pod controls the terminal.
TEST(Top, HostileNamesStayText) {
  Node hostile = node();
  hostile.tenants[0].name = "team/\x1b[2J\x9b\r\n\xe2\x80\xae/main";
  hostile.stops = {"\x1b]0;title\x07"};
  hostile.reason = "\x1b[31m";
  for (const auto& line : draw(hostile, {}, {.width = 120, .height = 0}))
    EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; })) << line;
}

TEST(Top, JsonHasTheSameFigures) {
  const auto json = to_json(node(), {});
  EXPECT_THAT(json, HasSubstr(R"("usedMiB": 1500)"));
  EXPECT_THAT(json, HasSubstr(R"("usedMiB": null)"));
}

}  // namespace top_test
}  // namespace tranche::top

#include "observe/web/web.h"

#include <gmock/gmock.h>

namespace tranche::web {
namespace web_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

view::Device device(const std::string& index, std::size_t slots, std::vector<std::uint32_t> tenants) {
  view::Device made;
  made.index = index;
  made.resource = "nvidia.com/gpu";
  for (const auto held : tenants) {
    view::Tenant tenant;
    tenant.name = "team/" + index + "-" + std::to_string(made.tenants.size());
    tenant.slots = held;
    tenant.limit_mib = 1024;
    if (held > 3) tenant.used_mib = 77;
    made.slots.insert(made.slots.end(), held, static_cast<int>(made.tenants.size()));
    made.tenants.push_back(tenant);
  }
  made.slots.resize(slots, -1);
  return made;
}

Shown two_nodes() {
  Shown shown{.server = "https://api.example:6443", .when = "2026-01-02T03:04:05"};
  Node a{"a"}, b{"b"}, c{"c", "the agent does not answer"};
  a.devices = {device("0", 10, {3, 4}), device("1", 10, {})};
  b.devices = {device("0", 10, {8}), device("1", 10, {1})};
  b.devices[1].healthy = false;
  b.devices[1].reason = "XID 79";
  shown.nodes = {a, b, c};
  shown.resources = resources_of(shown.nodes);
  return shown;
}

TEST(WebCapacity, CountsWhatIsFreeAndInWhichPieces) {
  const auto all = two_nodes().resources;
  ASSERT_THAT(all, SizeIs(1));
  const Resource& r = all.at("nvidia.com/gpu");
  EXPECT_EQ(std::tuple(r.slots, r.held, r.unhealthy, r.free, r.whole), std::tuple(40u, 16u, 9u, 15u, 10u));
}

constexpr const char* kNode = R"({"config": {"allocationPolicy": "packed"},
  "resources": [{"name": "r", "oneSlotPerRequest": false, "split": "reject"}],
  "devices": [{"index": "0", "uuid": "GPU-0", "resource": "r", "sharing": "mps", "pool": "p0", "healthy": true,
               "memoryMiB": 40000, "smCount": 100, "slotMemoryMiB": 10000,
               "slots": [{"id": "GPU-0::0", "holder": "team/a/main"}, {"id": "GPU-0::1"}, {"id": "GPU-0::2"},
                         {"id": "GPU-0::3"}]},
              {"index": "1", "uuid": "GPU-1", "resource": "r", "sharing": "mps", "pool": "p1", "healthy": HEALTHY,
               "memoryMiB": 40000, "smCount": 100, "slotMemoryMiB": 10000,
               "slots": [{"id": "GPU-1::0"}, {"id": "GPU-1::1"}, {"id": "GPU-1::2"}, {"id": "GPU-1::3"}]}],
  "grants": [{"namespace": "team", "pod": "a", "container": "main", "resource": "r",
              "devices": [{"uuid": "GPU-0", "slots": 1}]}]})";

std::string node_text(const char* word, const char* value) {
  std::string text = kNode;
  for (const auto& [from, to] : {std::pair<std::string, std::string>{word, value}, {"HEALTHY", "true"}})
    if (const auto at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

// Promise: web: What would fit is what the node agents would grant, by node.
TEST(WebFits, AreWhatTheAgentsWouldGrant) {
  Shown shown{.nodes = {make_node("a", node_text("HEALTHY", "true")), make_node("b", node_text("HEALTHY", "false"))}};
  shown.resources = resources_of(shown.nodes);
  EXPECT_EQ(shown.resources.at("r").largest, 4u);
  EXPECT_THAT(
      shown.resources.at("r").fits,
      ElementsAre(Fit{1, false, 10000, 10, 0, {{"a", 7}, {"b", 3}}}, Fit{2, false, 20000, 4, 2, {{"a", 3}, {"b", 1}}},
                  Fit{3, false, 30000, 3, 1, {{"a", 2}, {"b", 1}}}, Fit{4, true, 40000, 1, 6, {{"a", 1}}}));
  EXPECT_THAT(page(shown),
              AllOf(HasSubstr("4 (all of a GPU)<td class=n>40000 MiB<td class=n>1<td class=n>6<td><bdi>a: 1</bdi>"),
                    HasSubstr("<bdi>a: 7, b: 3</bdi>")));
  EXPECT_THAT(to_json(shown), HasSubstr("\"wholeDevice\": true"));
}

TEST(WebFits, KnowWhatAllocateRefuses) {
  const auto node = make_node("a", node_text("\"oneSlotPerRequest\": false", "\"oneSlotPerRequest\": true"));
  const auto all = resources_of({node});
  EXPECT_THAT(all.at("r").fits, ElementsAre(Fit{1, false, 10000, 7, 0, {{"a", 7}}}));
  EXPECT_EQ(all.at("r").largest, 1u);
}

TEST(WebPage, ShowsTheMapTheCapacityAndTheProblems) {
  const auto text = page(two_nodes());
  for (const char* shown : {"7 of 10 held", "1 of 10 held, unhealthy", "not known: the agent does not answer", "XID 79",
                            "3 node agents, 1 not known",
                            "<bdi>c is not known: ", "<th scope=row>nvidia.com/gpu<td class=n>40<td class=n>16"})
    EXPECT_THAT(text, HasSubstr(shown));
  EXPECT_THAT(text, Not(HasSubstr("shares of")));
  EXPECT_THAT(page({}), HasSubstr("No node reports a GPU"));
  Shown none;
  none.problem = "the API server does not answer";
  EXPECT_THAT(page(none), HasSubstr("the API server does not answer"));
}

TEST(WebPage, ListsThePods) {
  EXPECT_THAT(
      page(two_nodes()),
      AllOf(
          HasSubstr("<bdi>team/0-1</bdi><td><bdi>a</bdi><td>0<td class=n>4<td class=n>77 MiB<td class=n>1024 MiB"),
          HasSubstr("<bdi>team/0-0</bdi><td><bdi>a</bdi><td>0<td class=n>3<td class=n>not known<td class=n>1024 MiB")));
}

// Promise: web: What others write is text on the page of the cluster.
TEST(WebPage, HostileTextStaysText) {
  auto shown = two_nodes();
  shown.nodes[0].name = shown.nodes[0].devices[0].tenants[0].name = "<img src=x>\"";
  shown.nodes[1].devices[1].reason = shown.nodes[2].problem = shown.problem = "<script>";
  const auto text = page(shown);
  for (const char* markup : {"<img", "<script"}) EXPECT_THAT(text, Not(HasSubstr(markup)));
  EXPECT_THAT(text, HasSubstr("<th scope=row><bdi>&lt;img src=x&gt;&quot;</bdi>"));
}

TEST(WebNode, ADocumentThatIsNoneIsItsProblem) {
  EXPECT_THAT(make_node("n", "[]").problem, HasSubstr("not a JSON object"));
  const auto node =
      make_node("n", R"({"devices": [{"index": "0", "resource": "r", "healthy": true, "slots": [{}, {}]}]})");
  EXPECT_EQ(node.problem, "");
  EXPECT_THAT(to_json({.nodes = {node}, .resources = resources_of({node})}), HasSubstr("\"free\": 2"));
}

}  // namespace web_test
}  // namespace tranche::web

#pragma once
// The live view of a node, or of several: GPUs, tenants with memory against limit, what waits, what was stopped. From
// the node agent's status document to lines of text for a terminal of a given size. What is not known is "-", not 0.
// The document comes from another process: strict about types, forgiving about absences; no name in it controls the
// terminal. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/result.h"
#include "observe/cluster/agent_statuses.h"
#include "observe/view/view.h"

namespace tranche::top {

// Of a cluster: a node, by its name as `index`, with its GPUs as one.
struct Device : view::Device {
  bool answers = true;  // the node's agent; if not, only the index and the reason are known
};
using Tenant = view::Tenant;  // `name` is the full one, `device` the index; of a cluster: "node/index"

struct Node {
  bool cluster = false;  // of several nodes, as cluster_of() makes it
  std::string name;      // "": the agent was not given it
  bool ready = false;
  std::string reason;
  std::string driver;
  std::vector<Device> devices;
  std::vector<Tenant> tenants;
  std::vector<std::string> waiting;  // and why
  std::vector<std::string> stops;    // newest first
};

Result<Node> read_node(std::string_view status_json);

// A row for each node and the tenants of all. An agent's page says nothing of actions of the guard.
Node cluster_of(const std::vector<observe::AgentStatus>& agents);

enum class Sort { kMemory, kShare, kProcesses, kName, kDevice };
ENUM_NAMES(Sort::kDevice, "memory", "limit", "processes", "name", "gpu")
struct Choice {
  Sort sort = Sort::kMemory;
  bool reversed = false;
  std::string filter;            // part of a tenant's name
  std::size_t first = 0;         // tenants that are scrolled over
  std::size_t first_device = 0;  // GPUs, or nodes of a cluster, that are scrolled over
  bool of_devices = false;       // keys scroll these
  std::size_t page = 10;         // lines of what the keys scroll
  bool paused = false;
  bool help = false;
  bool typing = false;  // the filter
};

struct Screen {
  int width = 80;
  int height = 24;  // 0: as many lines as there are
  bool colour = false;
};

// `choice` without what the screen cannot do: no list is scrolled beyond its end.
Choice within(const Node& node, Choice choice, const Screen& screen);
// The chosen tenants in their order.
std::vector<Tenant> chosen(const Node& node, const Choice& choice);
// Lines of at most `width` columns; escapes of colours, which have no width, only with `colour`.
std::vector<std::string> draw(const Node& node, const Choice& choice, const Screen& screen);
std::string to_json(const Node& node, const Choice& choice);

enum class Key { kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kTab, kEscape, kEnter, kBackspace, kText };
// What a key does; false: it ends the view.
bool press(Choice& choice, Key key, char text);

}  // namespace tranche::top

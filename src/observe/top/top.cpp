#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json_text.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "observe/top/top.h"

namespace tranche::top {
namespace {

using Json = nlohmann::json;

constexpr const char* kHead = "7";
constexpr std::size_t kStopsShown = 5;

constexpr std::string_view kSortKeys = "MLPNG";  // of each Sort

constexpr std::array<const char*, 14> kHelp{
    "M  sort by memory            L  sort by memory relative to the limit",
    "P  sort by processes         N  sort by name",
    "G  sort by GPU               I  reverse the order",
    "/  filter by name            Esc  no filter",
    "up, down, k, j               one line",
    "page up, down, home, end     one page; the first, the last",
    "tab                          scroll the GPUs or nodes; the tenants",
    "space                        pause, go on",
    "h, ?                         this help",
    "q                            quit",
    "",
    "\"-\" is a figure that is not known. Memory is in MiB; that of a tenant includes the",
    "contexts of its processes. Busy: share of time in which any kernel ran. SMs: share of",
    "the SMs that were active. Both are of all tenants; SM LIMIT is what a tenant may use.",
};

// ASCII without control characters, so that a byte is a column.
std::string plain(std::string_view foreign) {
  std::string out;
  for (const char c : visible_text(foreign)) out += c >= ' ' && c <= '~' ? c : '?';
  return out;
}

std::string cut(std::string text, std::size_t width) {
  if (text.size() > width) text = width > 2 ? text.substr(0, width - 2) + ".." : text.substr(0, width);
  return text;
}

template <class Figure>
std::string known(const std::optional<Figure>& figure, std::string_view unit = "") {
  return figure ? fmt::format("{}{}", *figure, unit) : "-";
}

std::string bar(std::uint64_t part, std::uint64_t whole, std::size_t width) {
  const std::size_t full = whole == 0 ? 0 : std::min<std::uint64_t>(width, (part * width + whole / 2) / whole);
  return "[" + std::string(full, '|') + std::string(width - full, ' ') + "]";
}

double share(const Tenant& tenant) {
  if (!tenant.used_mib || tenant.limit_mib == 0) return -1;
  return static_cast<double>(*tenant.used_mib) / static_cast<double>(tenant.limit_mib);
}

class Page {
 public:
  explicit Page(const Screen& screen) : screen_(screen) {}
  void line(std::string text, const char* colour = nullptr) {
    text = cut(std::move(text), static_cast<std::size_t>(screen_.width));
    lines_.push_back(colour == nullptr ? std::move(text) : Pen{screen_.colour}(colour, text));
  }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  Screen screen_;
  std::vector<std::string> lines_;
};

// As wide as the longest text.
std::size_t width_of(const auto& all, auto text, std::size_t least, std::size_t most) {
  std::size_t width = least;
  for (const auto& each : all) width = std::max(width, plain(std::invoke(text, each)).size());
  return std::min(width, most);
}

// Where the lines of a screen go.
struct Layout {
  std::vector<Tenant> tenants;  // chosen
  std::size_t device_lines = 0;
  std::size_t most_devices = 0;  // lines for them, with the one that says which are shown
  std::size_t room = 0;          // lines for tenants
  std::size_t last_device = 0;   // the most that can be scrolled over
  std::size_t last_tenant = 0;
  bool devices_overflow() const { return device_lines > most_devices; }
};

std::size_t lines_of(const Device& device) {
  return device.healthy ? 1 : 2;
}

Layout layout(const Node& node, const Choice& choice, const Screen& screen) {
  Layout to{.tenants = chosen(node, choice)};
  for (const auto& device : node.devices) to.device_lines += lines_of(device);
  to.most_devices = to.device_lines;
  to.room = to.tenants.size();
  if (screen.height <= 0) return to;
  const auto height = static_cast<std::size_t>(screen.height);
  // What waits and what was stopped keeps its place below the tenants.
  const std::size_t below = (node.waiting.empty() ? 0 : 1 + std::min(node.waiting.size(), kStopsShown)) +
                            (node.stops.empty() ? 0 : 1 + std::min(node.stops.size(), kStopsShown));
  constexpr std::size_t kHeadings = 3;  // of the page, of the tenants, of their columns
  const std::size_t rest = height > kHeadings + below ? height - kHeadings - below : 2;
  // GPUs have what the tenants leave, and at least half.
  to.most_devices = std::max({rest / 2, rest - std::min(rest, to.tenants.size()), std::size_t{1}});
  to.room = std::max<std::size_t>(rest - std::min({rest, to.most_devices, to.device_lines}), 1);
  to.last_tenant = to.tenants.size() - std::min(to.tenants.size(), to.room);
  if (!to.devices_overflow()) return to;
  to.last_device = node.devices.size();
  for (std::size_t used = 1; to.last_device > 0; --to.last_device) {
    used += lines_of(node.devices[to.last_device - 1]);
    if (used > to.most_devices) break;
  }
  return to;
}

void put_device(Page& page, const Device& d, bool cluster, std::size_t name, std::size_t bar_width) {
  const std::string fill = bar_width == 0 ? "" : " " + bar(d.used_mib.value_or(0), d.memory_mib, bar_width);
  const std::string memory = d.answers ? fmt::format("{}/{} MiB", known(d.used_mib), d.memory_mib) : "-";
  const std::string activity =
      cluster ? "" : fmt::format(" busy {:>4} SMs {:>4}", known(d.busy_percent, "%"), known(d.sm_percent, "%"));
  const std::string slots =
      d.answers ? fmt::format("{:>2}/{:<2}", d.held(), d.slots.size()) : fmt::format("{:>2}   ", "-");
  const std::string state = !d.answers ? "NO ANSWER" : d.healthy ? plain(d.sharing) : "UNHEALTHY";
  page.line(fmt::format("{}{:<{}}{} {:<{}}{} slots {} {}", cluster ? "" : "GPU ", cut(plain(d.index), name), name, fill,
                        memory, cluster ? 19 : 17, activity, slots, state),
            d.healthy ? nullptr : kRed);
  if (!d.healthy) page.line("         " + plain(d.reason), kRed);
}

void put_devices(Page& page, const Node& node, const Choice& choice, const Layout& to, std::size_t width) {
  constexpr std::size_t kRest = 42, kLeastBar = 10;  // columns of a row after the node's name; of a bar
  std::size_t bar_width = std::clamp<std::size_t>(width / 8, kLeastBar, 40), name = 4;
  if (node.cluster) {  // names before bars
    name = width_of(node.devices, &Device::index, name, std::max(width, kRest + name) - kRest);
    if (name + kRest + bar_width + 3 > width) bar_width = 0;
  }
  const bool overflows = to.devices_overflow();
  std::size_t at = overflows ? choice.first_device : 0;
  for (std::size_t used = 1; at < node.devices.size(); ++at) {
    used += lines_of(node.devices[at]);
    if (overflows && used > to.most_devices) break;
    put_device(page, node.devices[at], node.cluster, name, bar_width);
  }
  if (!overflows) return;
  page.line(fmt::format("  {} {}-{} of {}  (tab: scroll {})", node.cluster ? "nodes" : "GPUs", choice.first_device + 1,
                        at, node.devices.size(), choice.of_devices ? "tenants" : "these"),
            choice.of_devices ? kBold : kDim);
}

std::string host_of(const std::string& node) {
  return node.substr(0, node.find('.'));
}

// Whether the nodes differ without their domains ("ip-10-0-0-1" of "ip-10-0-0-1.eu-west-1.compute.internal"). The first
// number of an address is not a name.
bool differ_by_host(const std::vector<Device>& nodes) {
  std::set<std::string> hosts;
  return std::ranges::all_of(nodes, [&hosts](const Device& node) {
    const std::string host = host_of(node.index);
    return host.find_first_not_of("0123456789") != std::string::npos && hosts.insert(host).second;
  });
}

// Where tenants are, as columns: of a cluster the node, and the GPU, which has an index unless it is for claims only.
class Places {
 public:
  Places(const Node& node, const std::vector<Tenant>& tenants, std::size_t most)
      : cluster_(node.cluster), by_host_(cluster_ && differ_by_host(node.devices)) {
    gpu_ = width_of(tenants, [this](const Tenant& t) { return gpu_of(t); }, 5, std::max<std::size_t>(most / 3, 5));
    if (cluster_)
      node_ = width_of(tenants, [this](const Tenant& t) { return node_of(t); }, 4, std::max(most, gpu_ + 5) - gpu_ - 1);
  }
  std::size_t width() const { return gpu_ + (cluster_ ? node_ + 1 : 0); }
  std::string heading() const { return row("NODE", "GPU"); }
  std::string of(const Tenant& tenant) const { return row(plain(node_of(tenant)), plain(gpu_of(tenant))); }

 private:
  std::string node_of(const Tenant& tenant) const {
    const std::string node = tenant.device.substr(0, tenant.device.rfind('/'));
    return by_host_ ? host_of(node) : node;
  }
  std::string gpu_of(const Tenant& tenant) const {
    return cluster_ ? tenant.device.substr(tenant.device.rfind('/') + 1) : tenant.device;
  }
  std::string row(const std::string& node, const std::string& gpu) const {
    return (cluster_ ? fmt::format("{:<{}} ", cut(node, node_), node_) : "") +
           fmt::format("{:<{}}", cut(gpu, gpu_), gpu_);
  }

  bool cluster_;
  bool by_host_;
  std::size_t node_ = 0;
  std::size_t gpu_ = 0;
};

void put_tenants(Page& page, const Node& node, const Layout& to, std::size_t first, std::size_t width) {
  constexpr std::size_t kBar = 12, kRest = 40, kName = 20;  // a narrow screen has no bar
  const Places places(node, to.tenants, width > kRest + kName ? width - kRest - kName : 0);
  const std::size_t rest = kRest + places.width();
  const std::size_t wide_bar = width >= rest + kName + kBar + 3 ? kBar + 3 : 0;
  const std::size_t name = std::max(width > rest + wide_bar ? width - rest - wide_bar : 0, kName);
  const auto limit_bar = [wide_bar](const Tenant& t) {
    return wide_bar == 0 ? "" : " " + bar(t.used_mib.value_or(0), t.limit_mib, kBar);
  };
  page.line(fmt::format("{:<{}} {} {:>5} {:>8} {:>8}{} {:>8} {:>5}", "TENANT", name, places.heading(), "SLOTS",
                        "USED MiB", "LIMIT", std::string(wide_bar, ' '), "SM LIMIT", "PROCS"),
            kHead);
  for (std::size_t i = first; i < to.tenants.size() && i < first + to.room; ++i) {
    const Tenant& t = to.tenants[i];
    page.line(fmt::format("{:<{}} {} {:>5} {:>8} {:>8}{} {:>8} {:>5}", cut(plain(t.name), name), name, places.of(t),
                          t.slots, known(t.used_mib), t.limit_mib == 0 ? "-" : std::to_string(t.limit_mib),
                          limit_bar(t), t.threads.empty() ? "-" : plain(t.threads) + "%", known(t.processes)),
              share(t) > 0.95 ? kRed : nullptr);
  }
}

void put_list(Page& page, const char* title, const std::vector<std::string>& lines, std::size_t most) {
  if (lines.empty()) return;
  page.line(title, kBold);
  for (std::size_t i = 0; i < std::min(lines.size(), most); ++i) page.line("  " + plain(lines[i]));
}

}  // namespace

std::vector<Tenant> chosen(const Node& node, const Choice& choice) {
  std::vector<Tenant> tenants;
  for (const auto& tenant : node.tenants)
    if (tenant.name.find(choice.filter) != std::string::npos) tenants.push_back(tenant);
  std::ranges::sort(tenants, {}, &Tenant::name);
  const auto key = [sort = choice.sort](const Tenant& t) -> std::pair<double, std::string_view> {
    if (sort == Sort::kMemory) return {-static_cast<double>(t.used_mib.value_or(0)), ""};
    if (sort == Sort::kShare) return {-share(t), ""};
    if (sort == Sort::kProcesses) return {-static_cast<double>(t.processes.value_or(0)), ""};
    if (sort == Sort::kDevice) return {t.device.size(), t.device};
    return {};
  };
  std::ranges::stable_sort(tenants, {}, key);
  if (choice.reversed) std::ranges::reverse(tenants);
  return tenants;
}

std::vector<std::string> draw(const Node& node, const Choice& wanted, const Screen& screen) {
  Page page(screen);
  const auto width = static_cast<std::size_t>(screen.width);
  std::string of = node.cluster ? "cluster" : plain(node.name);
  if (!node.cluster) of += (of.empty() ? "driver " : "  driver ") + (node.driver.empty() ? "-" : plain(node.driver));
  page.line(fmt::format("tranche top  {}  {}: {}", of, node.ready ? "ready" : "NOT READY", plain(node.reason)),
            node.ready ? kGreen : kRed);
  if (wanted.help) {
    for (const char* line : kHelp) page.line(line);
    return page.take();
  }
  const Layout to = layout(node, wanted, screen);
  const Choice choice = within(node, wanted, screen);
  put_devices(page, node, choice, to, width);
  std::string chosen_by = fmt::format("{} tenants, by {}{}", to.tenants.size(), to_string(choice.sort),
                                      choice.reversed ? " (reversed)" : "");
  if (!choice.filter.empty() || choice.typing)
    chosen_by += "  filter: " + plain(choice.filter) + (choice.typing ? "_" : "");
  if (choice.paused) chosen_by += "  PAUSED";
  if (to.last_tenant > 0)
    chosen_by += fmt::format("  {}-{}", choice.first + 1, std::min(choice.first + to.room, to.tenants.size()));
  page.line(chosen_by + (screen.height > 0 ? "  (h: help, q: quit)" : ""), kDim);
  put_tenants(page, node, to, choice.first, width);
  const std::size_t most = screen.height > 0 ? kStopsShown : node.waiting.size() + node.stops.size();
  put_list(page, "Waiting", node.waiting, most);
  put_list(page, "Last stops", node.stops, most);
  auto lines = page.take();
  if (screen.height > 0 && lines.size() > static_cast<std::size_t>(screen.height))
    lines.resize(static_cast<std::size_t>(screen.height));
  return lines;
}

Choice within(const Node& node, Choice choice, const Screen& screen) {
  const Layout to = layout(node, choice, screen);
  choice.of_devices = choice.of_devices && to.devices_overflow();
  choice.first_device = std::min(choice.first_device, to.last_device);
  choice.first = std::min(choice.first, to.last_tenant);
  // A page skips nothing, also where each GPU has a second line.
  const std::size_t lines_each = to.device_lines > node.devices.size() ? 2 : 1;
  choice.page = std::max<std::size_t>(choice.of_devices ? (to.most_devices - 1) / lines_each : to.room - 1, 1);
  return choice;
}

bool press(Choice& choice, Key key, char text) {
  constexpr std::size_t kFar = 1'000'000'000;  // within() brings it back
  if (choice.typing) {
    if (key == Key::kText) choice.filter += text;
    if (key == Key::kBackspace && !choice.filter.empty()) choice.filter.pop_back();
    if (key == Key::kEscape) choice.filter.clear();
    if (key == Key::kEnter || key == Key::kEscape) choice.typing = false;
    choice.first = 0;
    return true;
  }
  if (key == Key::kText && text == 'k') key = Key::kUp;
  if (key == Key::kText && text == 'j') key = Key::kDown;
  std::size_t& first = choice.of_devices ? choice.first_device : choice.first;
  if (key == Key::kUp) first -= std::min<std::size_t>(first, 1);
  if (key == Key::kDown) ++first;
  if (key == Key::kPageUp) first -= std::min(first, choice.page);
  if (key == Key::kPageDown) first += choice.page;
  if (key == Key::kHome) first = 0;
  if (key == Key::kEnd) first = kFar;
  if (key == Key::kTab) choice.of_devices = !choice.of_devices;
  if (key == Key::kEscape) {
    choice.filter.clear();
    choice.help = false;
  }
  if (key != Key::kText) return true;
  if (text == 'q') return false;
  if (text == 'h' || text == '?') choice.help = !choice.help;
  if (text == ' ') choice.paused = !choice.paused;
  if (text == '/') choice.typing = true;
  if (text == 'I') choice.reversed = !choice.reversed;
  if (const auto at = kSortKeys.find(text); at != std::string_view::npos) choice.sort = static_cast<Sort>(at);
  return true;
}

Result<Node> read_node(std::string_view status_json) {
  const Json json = json_of(status_json);
  if (!json.is_object()) return fail(Kind::kInvalid, "the answer is not a status document", "tranche node");
  Node node;
  node.name = text_at(json, "node");
  node.ready = truth_at(json, "ready");
  node.reason = text_at(json, "readyReason");
  node.driver = text_at(member_at(json, "driver"), "version");
  auto devices = view::read_devices(json);
  for (auto& device : devices.planned) {
    for (auto& tenant : device.tenants) tenant.device = device.index;
    std::ranges::move(std::exchange(device.tenants, {}), std::back_inserter(node.tenants));
    node.devices.push_back({std::move(device)});
  }
  std::ranges::move(devices.elsewhere, std::back_inserter(node.tenants));
  for (auto& tenant : node.tenants) tenant.name = tenant.full_name;
  node.waiting = texts_at(member_at(json, "change"), "waitingFor");
  for (const Json& act : list_at(member_at(json, "guard"), "acts")) {
    const std::string holder = text_at(act, "holder");
    node.stops.insert(node.stops.begin(),
                      fmt::format("{} ({}) {}: {} of {} MiB", text_at(act, "what"), text_at(act, "outcome"),
                                  holder.empty() ? text_at(act, "grant") : holder, count_at(act, "heldMiB"),
                                  count_at(act, "limitMiB")));
  }
  return node;
}

Node cluster_of(const std::vector<observe::AgentStatus>& agents) {
  Node all;
  all.cluster = true;
  std::size_t ready = 0;
  for (const auto& agent : agents) {
    Device& row = all.devices.emplace_back();
    row.index = agent.node;
    auto read =
        agent.document.empty() ? Result<Node>(fail(Kind::kUnavailable, agent.problem)) : read_node(agent.document);
    if (!read) {
      row.answers = row.healthy = false;
      row.reason = to_string(read.error());
      continue;
    }
    ready += read->ready ? 1 : 0;
    row.healthy = read->ready;
    row.sharing = count_text(read->devices.size(), "GPU");
    if (!read->ready) row.reason = read->reason;
    row.used_mib = 0;
    for (const auto& device : read->devices) {
      row.memory_mib += device.memory_mib;
      row.used_mib = row.used_mib && device.used_mib ? std::optional(*row.used_mib + *device.used_mib) : std::nullopt;
      row.slots.insert(row.slots.end(), device.slots.begin(), device.slots.end());
      if (device.healthy) continue;
      row.healthy = false;
      row.reason += (row.reason.empty() ? "" : "; ") + fmt::format("GPU {}: {}", device.index, device.reason);
    }
    for (auto& tenant : read->tenants) {
      tenant.device = agent.node + "/" + tenant.device;
      all.tenants.push_back(std::move(tenant));
    }
    for (const auto& waiting : read->waiting) all.waiting.push_back(agent.node + ": " + waiting);
  }
  all.ready = ready == agents.size() && !agents.empty();
  all.reason = fmt::format("{} of {} node agents ready", ready, agents.size());
  return all;
}

std::string to_json(const Node& node, const Choice& choice) {
  nlohmann::ordered_json json{
      {"node", node.name}, {"ready", node.ready}, {"reason", node.reason}, {"driver", node.driver}};
  json["devices"] = json["tenants"] = nlohmann::ordered_json::array();
  for (const auto& device : node.devices) {
    json["devices"].push_back(view::to_json(device));
    json["devices"].back()["answers"] = device.answers;
  }
  for (const auto& tenant : chosen(node, choice)) json["tenants"].push_back(view::to_json(tenant));
  json["waiting"] = node.waiting;
  json["stops"] = node.stops;
  return json_text(json, 2);
}

}  // namespace tranche::top

#include "simulate/land.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/terminal_text.h"
#include "base/text.h"
#include "plan/plan.h"

namespace tranche::simulate {
namespace {

using Row = TerminalText::Row;
using Json = nlohmann::ordered_json;

std::string counts(const Simulation& simulation) {
  struct Text {
    Fate fate;
    const char *one, *several;
  };
  constexpr Text kTexts[] = {{Fate::kLands, "lands", "land"},
                             {Fate::kWaits, "waits", "wait"},
                             {Fate::kRefused, "is refused", "are refused"},
                             {Fate::kUnknown, "requests a resource that the node does not have",
                              "request a resource that the node does not have"},
                             {Fate::kUnpredicted, "is not predicted", "are not predicted"}};
  std::vector<std::string> parts;
  for (const auto& [fate, one, several] : kTexts)
    if (const auto n = simulation.count(fate); n > 0 || fate == Fate::kLands)
      parts.push_back(fmt::format("{} {}", n, n == 1 ? one : several));
  return join(parts, ", ");
}

void write_pod(const PodOutcome& outcome, std::vector<Row>& rows) {
  if (outcome.holdings.empty())
    rows.push_back({outcome.full_name(), std::string(to_string(outcome.fate)), "", "", "", "", "", ""});
  bool first = true;
  for (const Holding& holding : outcome.holdings) {
    for (const OnDevice& on : holding.devices) {
      const std::string role = holding.role == Role::kMain ? "" : fmt::format(" ({})", to_string(holding.role));
      rows.push_back({first ? outcome.full_name() : "", first ? std::string(to_string(outcome.fate)) : "",
                      holding.container + role, holding.resource, std::to_string(on.slots), on.index,
                      plan::mib_text(on.limits.memory), plan::threads_text(on.limits)});
      first = false;
    }
  }
}

void write_pods(const Simulation& simulation, TerminalText& out) {
  out.heading(fmt::format("{}: {}", count_text(simulation.pods.size(), "pod"), counts(simulation)));
  if (simulation.pods.empty()) out.line("no pod requests a resource of this node");
  std::vector<Row> rows{{"POD", "STATE", "CONTAINER", "RESOURCE", "SLOTS", "GPU", "MEMORY", "SMS"}};
  for (const PodOutcome& outcome : simulation.pods) write_pod(outcome, rows);
  if (rows.size() > 1) out.table(rows);
  if (simulation.others > 0)
    out.line("not shown: " + count_text(simulation.others, "other pod") + " without such a request, or finished");
  if (simulation.elsewhere > 0) out.line("not shown: " + count_text(simulation.elsewhere, "pod") + " on other nodes");
}

void write_reasons(const Simulation& simulation, TerminalText& out) {
  if (!simulation.all_land()) out.heading("Reasons");
  for (const PodOutcome& outcome : simulation.pods)
    for (const std::string& why : outcome.why) {
      const bool open = outcome.fate == Fate::kWaits || outcome.fate == Fate::kUnpredicted;
      out.sentence(open ? "-" : "x", outcome.full_name() + ": " + why, open ? "33" : "31");
    }
  bool first = true;
  for (const PodOutcome& outcome : simulation.pods) {
    for (const std::string& note : outcome.notes) {
      if (std::exchange(first, false)) out.heading("Notes");
      out.sentence("-", outcome.full_name() + ": " + note, "36");
    }
  }
}

std::string promised(std::uint64_t sum, std::uint64_t all, const char* unit) {
  return sum == 0 ? "-" : fmt::format("{} of {}{}", sum, all, unit);
}

void write_left(const Simulation& simulation, TerminalText& out) {
  out.heading("Remaining capacity");
  std::vector<Row> rows{{"RESOURCE", "GPU", "SLOTS", "FREE", "MEMORY PROMISED", "SM LIMITS, SUM"}};
  for (const ResourceLeft& left : simulation.resources)
    for (const DeviceLeft& device : left.devices)
      rows.push_back({left.resource, device.index, std::to_string(device.slots),
                      std::to_string(device.slots - device.taken),
                      promised(device.promised_memory.in_mib(), device.memory.in_mib(), " MiB"),
                      promised(device.promised_sms, device.sm_count, "")});
  if (rows.size() == 1) return out.line("the device plugin offers no slots");
  out.table(rows);
  for (const ResourceLeft& left : simulation.resources) {
    if (left.free > 0)
      out.sentence("-",
                   fmt::format("{}: {} of {} are free; the largest request of one container that still lands is {}",
                               left.resource, left.free, left.slots, left.largest),
                   "36");
    if (left.stranded > 0)
      out.sentence("!",
                   fmt::format("{}: {} free {} stranded: enough in number for a request of {}, but in pieces too small "
                               "for it",
                               left.resource, left.stranded, left.stranded == 1 ? "slot is" : "slots are",
                               left.stranded_request),
                   "33");
  }
}

bool is_pod(const Difference& difference) {
  return difference.what.starts_with("pod ");
}

bool is_sentence(const Difference& difference) {
  return difference.what == "note" || difference.what == "left out";
}

void write_pods(const std::vector<Difference>& differences, TerminalText& out) {
  if (std::ranges::none_of(differences, is_pod)) return;
  out.heading("Pods that land differently");
  for (const Difference& d : differences) {
    if (!is_pod(d)) continue;
    out.line(d.what.substr(d.what.find(' ') + 1));
    if (!d.before.empty()) out.sentence("  -", d.before, "31");
    if (!d.after.empty()) out.sentence("  +", d.after, "32");
  }
}

}  // namespace

std::string render_table(const Simulation& simulation, const plan::TableOptions& options) {
  TerminalText out(options.colour, options.width);
  write_pods(simulation, out);
  write_reasons(simulation, out);
  write_left(simulation, out);
  return out.take();
}

std::string render_table(const std::vector<Difference>& differences, const std::string& before,
                         const std::string& after, const plan::TableOptions& options) {
  TerminalText out(options.colour, options.width);
  out.heading(differences.empty()
                  ? fmt::format("{} and {} do not differ", before, after)
                  : fmt::format("{} from {} to {}", count_text(differences.size(), "difference"), before, after));
  std::vector<Row> rows{{"WHAT", "GPU", "FIELD", "BEFORE", "AFTER"}};
  const auto or_dash = [](const std::string& text) { return text.empty() ? "-" : text; };
  for (const Difference& d : differences)
    if (!is_sentence(d) && !is_pod(d))
      rows.push_back({d.what, join(plan::folded(d.devices), ", "), d.field, or_dash(d.before), or_dash(d.after)});
  if (rows.size() > 1) out.table(rows);
  for (const Difference& d : differences)
    if (is_sentence(d))
      out.sentence(d.before.empty() ? "+" : "-", d.what + ": " + (d.before.empty() ? d.after : d.before),
                   d.before.empty() ? "32" : "31");
  write_pods(differences, out);
  return out.take();
}

static void to_json(Json& json, const OnDevice& on) {
  json = {{"uuid", on.uuid}, {"index", on.index}, {"slots", on.slots}, {"share", on.limits}};
}

static void to_json(Json& json, const Holding& holding) {
  json = {{"container", holding.container},
          {"role", to_string(holding.role)},
          {"resource", holding.resource},
          {"pool", holding.pool},
          {"devices", holding.devices}};
}

static void to_json(Json& json, const Lack& lack) {
  json = {{"resource", lack.resource}, {"asked", lack.asked}, {"free", lack.free}, {"largest", lack.largest}};
}

static void to_json(Json& json, const PodOutcome& outcome) {
  json = {{"namespace", outcome.pod_namespace},
          {"name", outcome.name},
          {"fate", to_string(outcome.fate)},
          {"holdings", outcome.holdings},
          {"claims", outcome.claims},
          {"lacks", outcome.lacks},
          {"why", outcome.why},
          {"notes", outcome.notes}};
}

static void to_json(Json& json, const DeviceLeft& device) {
  json = {{"uuid", device.uuid},
          {"index", device.index},
          {"slots", device.slots},
          {"taken", device.taken},
          {"memoryMiB", device.memory.in_mib()},
          {"promisedMemoryMiB", device.promised_memory.in_mib()},
          {"sms", device.sm_count},
          {"promisedSms", device.promised_sms}};
}

static void to_json(Json& json, const ResourceLeft& left) {
  json = {{"resource", left.resource}, {"slots", left.slots},       {"free", left.free},
          {"largest", left.largest},   {"stranded", left.stranded}, {"strandedRequest", left.stranded_request},
          {"devices", left.devices}};
}

void to_json(Json& json, const Simulation& simulation) {
  for (const Fate fate : {Fate::kLands, Fate::kWaits, Fate::kRefused, Fate::kUnknown, Fate::kUnpredicted})
    json[std::string(to_string(fate))] = simulation.count(fate);
  json["others"] = simulation.others;
  json["elsewhere"] = simulation.elsewhere;
  json["pods"] = simulation.pods;
  json["left"] = simulation.resources;
}

void to_json(Json& json, const UnknownObject& object) {
  json = {{"apiVersion", object.api_version},
          {"kind", object.kind},
          {"namespace", object.object_namespace},
          {"name", object.name}};
}

void to_json(Json& json, const Difference& difference) {
  json = {{"what", difference.what},
          {"devices", difference.devices},
          {"field", difference.field},
          {"before", difference.before},
          {"after", difference.after}};
}

}  // namespace tranche::simulate

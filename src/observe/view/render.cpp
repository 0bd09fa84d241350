#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/utf8.h"
#include "observe/view/view.h"

namespace tranche::view {
namespace {

constexpr std::array kColours{"\033[36m", "\033[33m", "\033[35m", "\033[32m",
                              "\033[34m", "\033[96m", "\033[93m", "\033[95m"};
constexpr const char* kRed = "\033[31m";
constexpr const char* kGreen = "\033[32m";
constexpr const char* kYellow = "\033[33m";
constexpr const char* kDim = "\033[2m";
constexpr const char* kBold = "\033[1m";
constexpr const char* kPlain = "\033[0m";
constexpr std::size_t kNameWidth = 24;  // a row of a tenant fits 80 columns
constexpr std::size_t kPromiseWidth = 36;
constexpr std::size_t kBarWidth = 40;  // most cells of one GPU's bar

class Pen {
 public:
  explicit Pen(bool colour) : colour_(colour) {}
  std::string operator()(const char* style, std::string_view text) const {
    return colour_ ? fmt::format("{}{}{}", style, text, kPlain) : std::string(text);
  }

 private:
  bool colour_;
};

std::string letter(std::size_t tenant, const Pen& pen) {
  const auto c = static_cast<char>(tenant < 26 ? 'a' + tenant : 'A' + tenant % 26);
  return pen(kColours[tenant % kColours.size()], std::string(1, c));
}

// One cell a slot; many slots are folded so that the bar stays readable, a folded cell showing its first holder.
std::string slot_bar(const Device& device, const Pen& pen) {
  const std::size_t fold = (device.slots.size() + kBarWidth - 1) / kBarWidth;
  std::string bar;
  for (std::size_t i = 0; i < device.slots.size(); i += std::max<std::size_t>(1, fold)) {
    const auto cell = std::span(device.slots).subspan(i, std::min(fold, device.slots.size() - i));
    const auto first = std::ranges::find_if(cell, [](int tenant) { return tenant >= 0; });
    bar += first == cell.end() ? pen(kDim, "·") : letter(static_cast<std::size_t>(*first), pen);
  }
  return bar;
}

std::string fill_bar(std::uint64_t used, std::uint64_t limit, std::size_t width) {
  if (limit == 0) return std::string();
  const auto filled = std::min<std::size_t>(width, static_cast<std::size_t>((used * width + limit - 1) / limit));
  std::string bar;
  for (std::size_t i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
  return bar;
}

std::string clipped(std::string_view bytes, std::size_t width) {
  std::string text = visible_text(bytes);
  if (text.size() > width) text = std::string(first_bytes(text, width - 1)) + "~";
  return text;
}

std::string state_of(const Device& device, const Pen& pen) {
  const std::string state = device.healthy ? pen(kGreen, "healthy") : pen(kRed, "unhealthy");
  return state + (device.pool_state.empty() ? "" : ", MPS " + visible_text(device.pool_state));
}

std::string slots_of(const Device& device, const Pen& pen) {
  return fmt::format("[{}] {}/{} slots", slot_bar(device, pen), device.held(), device.slots.size());
}

void put_device(std::string& out, const Device& device, const Pen& pen) {
  out += fmt::format("{}  {}  {}\n", pen(kBold, fmt::format("GPU {:<3} {}", device.index, visible_text(device.name))),
                     state_of(device, pen), pen(kDim, visible_text(device.uuid)));
  out += fmt::format("  {}   memory {} of {} MiB used   {} SMs{}\n", slots_of(device, pen), device.used_mib.value_or(0),
                     device.memory_mib, device.sm_count,
                     device.sm_percent ? fmt::format(", {} % active", *device.sm_percent) : "");
  if (!device.healthy) out += "  " + pen(kRed, visible_text(device.reason + device.unhealthy_for)) + "\n";
  for (std::size_t i = 0; i < device.tenants.size(); ++i) {
    const Tenant& tenant = device.tenants[i];
    std::string memory = tenant.limit_mib == 0 ? "no limit" : fmt::format("{:>6} MiB limit", tenant.limit_mib);
    if (tenant.used_mib && tenant.limit_mib > 0 && tenant.processes != 0u)
      memory = fmt::format("{} {:>6} of {:>6} MiB", fill_bar(*tenant.used_mib, tenant.limit_mib, 10), *tenant.used_mib,
                           tenant.limit_mib);
    out += fmt::format("   {} {:<{}} {:>2} {:<5}  {}{}\n", letter(i, pen), clipped(tenant.name, kNameWidth), kNameWidth,
                       tenant.slots, tenant.slots == 1 ? "slot" : "slots", memory,
                       tenant.sms > 0 ? fmt::format("  {:>3} SMs", tenant.sms) : "");
  }
}

void put_folded(std::string& out, const Device& device, const Pen& pen) {
  out += fmt::format("{} {}  {} of {} MiB  {}{}\n", pen(kBold, "GPU " + device.index), slots_of(device, pen),
                     device.used_mib.value_or(0), device.memory_mib, state_of(device, pen),
                     device.healthy ? "" : ": " + visible_text(device.reason + device.unhealthy_for));
  for (std::size_t i = 0; i < device.tenants.size(); ++i)
    out += fmt::format("{}{} {}", i == 0 ? "   " : ", ", letter(i, pen), visible_text(device.tenants[i].name));
  if (!device.tenants.empty()) out += "\n";
}

void put_claims(std::string& out, const std::vector<dra::ShownPart>& claims, const Pen& pen) {
  if (claims.empty()) return;
  out += pen(kBold, "Claims") + "\n";
  for (const auto& claim : claims) {
    std::string state;
    if (claim.enforced == "yes") state = pen(kGreen, "enforced");
    if (claim.enforced == "partly") state = pen(kYellow, "partly enforced");
    if (claim.enforced == "no") state = pen(kRed, "not enforced");
    if (!claim.why.empty()) state += ": " + visible_text(claim.why);
    if (claim.used_mib) state += fmt::format("{}uses {} MiB", state.empty() ? "" : "; ", *claim.used_mib);
    out += fmt::format("   {:<{}} {:<13} {:<28}  {}\n", clipped(claim.claim + "/" + claim.request, kNameWidth),
                       kNameWidth, clipped(claim.device, 13), clipped(dra::limits_text(claim), 28), state);
    if (!claim.holder.empty()) out += fmt::format("     {}\n", pen(kDim, "held by pod " + visible_text(claim.holder)));
  }
}

void put_lines(std::string& out, const char* title, const std::vector<Line>& lines, const Pen& pen) {
  if (lines.empty()) return;
  out += pen(kBold, title) + "\n";
  for (const Line& line : lines)
    out += fmt::format("   {:<{}} {}\n", clipped(line.what, kNameWidth), kNameWidth, visible_text(line.why));
}

// An unknown value of a different program counts as "no".
const char* colour_of(const std::string& state) {
  return state == "yes" ? kGreen : state == "partly" ? kYellow : kRed;
}

void put_promises(std::string& out, const std::vector<Promise>& promises, const Pen& pen) {
  if (promises.empty()) return;
  out += pen(kBold, "Enforced") + "\n";
  for (const Promise& promise : promises) {
    const std::string why = promise.why.empty() ? "" : (promise.by.empty() ? "" : "; ") + promise.why;
    out += fmt::format(
        "   {} {:<{}} {}{}\n", pen(colour_of(promise.state), fmt::format("{:<6}", visible_text(promise.state))),
        visible_text(promise.what), kPromiseWidth, pen(kDim, visible_text(promise.by)), visible_text(why));
  }
}

// The states of the promises, and what is not kept completely.
void put_kept(std::string& out, const std::vector<Promise>& promises, const Pen& pen) {
  if (promises.empty()) return;
  out += pen(kBold, "Enforced");
  const auto kept = std::ranges::count(promises, "yes", &Promise::state);
  out += fmt::format("  {} of {}", kept, promises.size());
  for (const Promise& promise : promises)
    if (promise.state != "yes")
      out += fmt::format("; {}: {}", visible_text(promise.what),
                         pen(colour_of(promise.state), visible_text(promise.state)));
  out += "\n";
}

}  // namespace

std::string render(const View& view, const Look& look) {
  const Pen pen(look.colour);
  std::string out, devices, others;
  out += fmt::format("{}  {}{}  config: {}\n", pen(kBold, "tranche"),
                     view.node.empty() ? "" : "node " + visible_text(view.node) + "  ",
                     view.driver_ready ? visible_text(view.driver) : pen(kRed, visible_text(view.driver)),
                     visible_text(view.config));
  out += (view.kubelet_ready ? visible_text(view.kubelet) : pen(kRed, visible_text(view.kubelet))) + "\n";
  for (const Device& device : view.devices) (look.folded ? put_folded : put_device)(devices, device, pen);
  put_claims(others, view.claims, pen);
  put_lines(others, "Waiting", view.waiting, pen);
  put_lines(others, "Ended", view.ended, pen);
  look.folded ? put_kept(others, view.promises, pen) : put_promises(others, view.promises, pen);
  for (const auto& problem : view.problems) others += pen(kRed, "! ") + visible_text(problem) + "\n";
  if (look.folded) return out + others + devices;
  out += "\n" + devices + (devices.empty() ? "" : "\n") + others;
  if (look.notes)
    for (const auto& note : view.notes) out += pen(kDim, "note: " + visible_text(note)) + "\n";
  return out;
}

}  // namespace tranche::view

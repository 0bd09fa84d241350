// Parses which GPUs a node uses, and which of them claims have.
#include "base/text.h"
#include "config/names.h"
#include "config/parse/sections.h"

namespace tranche::config {
namespace {

// Malformed addresses and UUIDs would otherwise count as names of models that no GPU has.
bool is_broken(std::string_view text) {
  if (text.find('*') != std::string_view::npos) return false;
  if (text.starts_with("GPU-")) return !is_device_reference(text);
  const bool address = text.find(':') != std::string_view::npos && text.find(' ') == std::string_view::npos;
  return address && !pci_address(text);
}

}  // namespace

void read_value(const Value& list, std::vector<DeviceRef>& into) {
  if (!list.note_given()) return;
  const char* remedy = "write a UUID, a PCI address (0000:3b:00.0), an index, or a model with * (\"NVIDIA H200*\")";
  if (list.node().kind != Node::Kind::kSequence) return list.wrong_type("a list", remedy);
  if (list.node().items.size() > 1000) return list.error("has more than 1,000 GPUs", remedy);
  for (const Value& item : list.items()) {
    if (auto ref = device_reference(item);
        ref && !ref->text.starts_with("MIG-") && ref->text.find(':') == std::string::npos) {
      into.push_back(*std::move(ref));
      continue;
    }
    const auto text = item.plain_text();
    if (text && !trimmed(*text).empty() && !is_broken(*text) && !text->starts_with("MIG-"))
      into.push_back({*text});
    else
      item.error("must name GPUs, but is " + describe(item.node()), remedy);
  }
}

void read_value(const Value& devices, Dra& into) {
  if (!devices.given() || devices.node().kind != Node::Kind::kSequence) return devices.read_word(into.devices);
  if (devices.node().items.empty())
    return devices.error("is an empty list", "write the GPUs of claims, such as [0, 1], or the word none");
  into.devices = DraDevices::kListed;
  read_value(devices, into.listed);
}

}  // namespace tranche::config

#include "standins/mps/partitions.h"

#include <algorithm>
#include <cstdio>

namespace tranche::sim {
namespace {

constexpr std::size_t kPrintedUuid = 22;  // as `ps` cuts them

std::string encoded(std::uint64_t value) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::string text;
  for (int i = 0; i < 5; ++i) {
    text += kLetters[value % kLetters.size()];
    value /= kLetters.size();
  }
  return text;
}

std::string row(const char* device, const char* partition, const std::string& free_chunks,
                const std::string& used_chunks, const std::string& free_sms, const std::string& used_sms,
                const char* clients) {
  char text[160];
  std::snprintf(text, sizeof text, "%-24s %-10s %-6s %-6s %-6s %-6s %s\n", device, partition, free_chunks.c_str(),
                used_chunks.c_str(), free_sms.c_str(), used_sms.c_str(), clients);
  return text;
}

}  // namespace

PartitionedDevice::PartitionedDevice(std::string uuid, std::uint32_t sm_count, int cc_major, std::uint64_t salt)
    : uuid_(std::move(uuid)),
      sm_count_(sm_count),
      chunk_sms_(cc_major >= 9 ? 8 : 4),
      chunks_(cc_major >= 8 ? sm_count / chunk_sms_ : 0),
      salt_(salt) {}

std::uint32_t PartitionedDevice::used_chunks() const {
  std::uint32_t used = 0;
  for (const auto& one : partitions_) used += one.chunks;
  return used;
}

std::optional<SmPartition> PartitionedDevice::add(std::uint32_t chunks) {
  if (chunks == 0 || chunks > chunks_) return std::nullopt;
  std::uint32_t first = 0;
  auto before = partitions_.begin();
  for (; before != partitions_.end() && before->first - first < chunks; ++before)
    first = before->first + before->chunks;
  if (chunks_ - first < chunks) return std::nullopt;
  const SmPartition made{encoded((std::uint64_t{first} * 64 + chunks) * 7919 + 104729 + salt_), first, chunks};
  partitions_.insert(before, made);
  return made;
}

bool PartitionedDevice::remove(std::string_view id) {
  return std::erase_if(partitions_, [&](const SmPartition& one) { return one.id == id; }) != 0;
}

const SmPartition* PartitionedDevice::find(std::string_view id) const {
  const auto found = std::ranges::find(partitions_, id, &SmPartition::id);
  return found == partitions_.end() ? nullptr : &*found;
}

std::string partition_table(const std::vector<PartitionedDevice>& devices, const std::vector<std::string>& in_use) {
  std::string text = row("GPU", "Partition", "free", "used", "free", "used", "clients");
  text += row("", "", "chunk", "chunk", "SM", "SM", "");
  for (const auto& device : devices) {
    const std::string printed = device.uuid().substr(0, kPrintedUuid);
    std::uint32_t used_sms = 0;
    for (const auto& one : device.partitions()) used_sms += device.sms(one);
    text += row(printed.c_str(), "-", std::to_string(device.chunks() - device.used_chunks()),
                std::to_string(device.used_chunks()), std::to_string(device.sm_count() - used_sms),
                std::to_string(used_sms), "-");
    for (const auto& one : device.partitions()) {
      const bool used = std::ranges::find(in_use, device.uuid() + "/" + one.id) != in_use.end();
      text += row(printed.c_str(), one.id.c_str(), "-", std::to_string(one.chunks), "-",
                  std::to_string(device.sms(one)), used ? "Yes" : "-");
    }
  }
  return text;
}

PartitionedDevice* device_named(std::vector<PartitionedDevice>& devices, std::string_view prefix) {
  PartitionedDevice* found = nullptr;
  for (auto& device : devices) {
    if (prefix.empty() || !device.uuid().starts_with(prefix)) continue;
    if (found != nullptr) return nullptr;
    found = &device;
  }
  return found;
}

}  // namespace tranche::sim

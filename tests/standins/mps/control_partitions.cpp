// sm_partition and lspart of a daemon with -S.
#include <algorithm>

#include "standins/mps/control_daemon.h"

namespace tranche::sim {
namespace {

std::string argument(const ControlCommand& command, std::size_t at) {
  return at < command.args.size() ? command.args[at] : std::string();
}

}  // namespace

void ControlDaemon::cut_devices() {
  if (!options_.static_partitions) return;
  for (const auto& device : devices_) {
    partitioned_.emplace_back(device.facts.uuid, device.facts.sm_count, device.facts.cc_major, options_.partition_salt);
  }
}

std::vector<std::string> ControlDaemon::partitions_in_use() const {
  std::vector<std::string> used;
  for (const auto& server : servers_) used.insert(used.end(), server->partitions.begin(), server->partitions.end());
  return used;
}

// "<uuid>/<id> <sms>" of every partition: what servers have to know.
std::string ControlDaemon::partitions_text() const {
  std::string text;
  for (const auto& device : partitioned_) {
    for (const auto& one : device.partitions())
      text += device.uuid() + "/" + one.id + " " + std::to_string(device.sms(one)) + " ";
  }
  return text;
}

void ControlDaemon::execute_partition(Session& session, const ControlCommand& command) {
  if (!options_.static_partitions) return reply(session, "Static partitioning mode is not enabled\n");
  const auto used = partitions_in_use();
  if (command.kind == CommandKind::kListPartitions) return reply(session, partition_table(partitioned_, used));
  auto* device = device_named(partitioned_, argument(command, 1));
  if (device == nullptr) return reply(session, "Invalid device " + argument(command, 1) + "\n");
  const auto has_clients = [&](const std::string& prefix) {
    return std::ranges::any_of(used, [&](const std::string& one) { return one.starts_with(prefix); });
  };
  std::string text;
  if (argument(command, 0) == "add") {
    if (has_clients(device->uuid() + "/")) return reply(session, "The device has active clients\n");
    const auto made = device->add(
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(loose_number(argument(command, 2)), 0, 1 << 20)));
    if (!made) return reply(session, "Not enough free chunks on the device\n");
    text = device->uuid() + "/" + made->id + "\n";
  } else if (argument(command, 0) == "rm") {
    const std::string id = argument(command, 2);
    if (has_clients(device->uuid() + "/" + id)) return reply(session, "The partition is in use\n");
    if (!device->remove(id)) return reply(session, "Invalid partition " + id + "\n");
  } else {
    return reply(session, "Unknown command \"" + command.name + " " + argument(command, 0) + "\"\n");
  }
  for (const auto& server : servers_) {
    if (server->pid != 0) send_message(server->channel.get(), {"partitions", {{"all", partitions_text()}}});
  }
  reply(session, text);
}

}  // namespace tranche::sim

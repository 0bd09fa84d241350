#include "node/grants/answers.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/result.h"
#include "base/text.h"
#include "grants/allocate/prefer.h"
#include "mps/protocol/mps_client.h"
#include "node/decide.h"
#include "os/clock/clock.h"

namespace tranche::node {
namespace {

// A refused Allocate fails the pod for good, and a `tranche mps` that starves of CPU time answers late.
constexpr Duration kOpenDeadline = std::chrono::seconds(5);

// Has `tranche mps` open the grant's endpoint, with its limits, before kubelet gets the grant. kubelet asks for slots
// only when no container holds them, so everything that a former tenant left (its directory, its clients) is removed.
Status make_endpoint(const grants::Paths& paths, const grants::Grant& grant) {
  mps::GrantLimits limits;
  for (const auto& device : grant.devices) limits.push_back({device.uuid, device.limits.memory, device.limits.threads});
  const mps::OpenEndpointRequest open{{grant.pool, grant.id}, {.limits = std::move(limits)}, true};
  const auto answered = os::ask(mps::mps_socket(paths.mps_root), mps::request_line(open), kOpenDeadline);
  const auto opened = answered ? mps::read_reply(*answered) : std::unexpected(answered.error());
  if (!opened)
    return std::unexpected(
        within(opened.error(), "cannot open the grant's MPS endpoint; try again when the pool serves"));
  return {};
}

bool share_a_slot(const std::vector<std::string>& slots, std::span<const std::string> others) {
  return std::ranges::find_first_of(slots, others) != slots.end();
}

}  // namespace

void LiveGrants::given(const grants::Grant& grant, MonoTime now) {
  std::erase_if(given_, [&](const auto& entry) { return share_a_slot(entry.second.slots, grant.slots); });
  given_[grant.id] = {grant.slots, now};
}

void LiveGrants::count_into(grants::Around& around, const std::vector<grants::Held>& holdings, MonoTime listed,
                            std::span<const std::string> asked_for) {
  for (auto& [device, room] : around.room) room.held = 0;
  const auto add = [&](const std::vector<std::string>& slots) {
    std::set<std::string_view> devices;
    for (const auto& slot : slots) {
      const auto room = around.room.find(plan::device_of(slot));
      if (room == around.room.end()) continue;
      ++*room->second.held;
      if (devices.insert(room->first).second) ++room->second.live;
    }
  };
  for (const auto& holding : holdings) {
    const auto given = given_.find(grants::grant_id(holding.slots));
    const bool older = given != given_.end() && listed <= given->second.at;
    if (given != given_.end() && !older) given_.erase(given);
    if (!older && !share_a_slot(holding.slots, asked_for)) add(holding.slots);
  }
  std::erase_if(given_, [&](const auto& entry) { return listed - entry.second.at > grants::kPatience.listed_within; });
  for (const auto& [id, given] : given_)
    if (!share_a_slot(given.slots, asked_for)) add(given.slots);
}

NodeAnswers::NodeAnswers(const SnapshotBox& box, std::string mps_root, std::function<void()> on_answered)
    : box_(box), mps_root_(std::move(mps_root)), on_answered_(std::move(on_answered)) {}

grants::Around NodeAnswers::around(const Snapshot& snapshot, const plan::PlannedResource& resource,
                                   std::span<const std::string> ids) {
  auto around = grants::around(snapshot.plan, resource);
  const auto may_be_full = [&](const plan::PlannedDevice& device) {
    const auto room = around.room.find(device.uuid);
    return room != around.room.end() && device.slots > room->second.most;
  };
  // Otherwise the slots run out before the clients, and one slot is never in pieces.
  if (ids.size() < 2 && std::ranges::none_of(resource.devices, may_be_full)) return around;
  const std::lock_guard lock(mutex_);
  live_.count_into(around, snapshot.holdings, snapshot.holdings_read, ids);
  return around;
}

Result<grants::Grant> NodeAnswers::decide(const std::string& resource, std::span<const std::string> ids) {
  const auto snapshot = box_.get();
  const auto* planned = plan::find_resource(snapshot->plan, resource);
  if (planned == nullptr) return fail(Kind::kNotFound, resource + " is not advertised by this node any more");
  for (const auto& id : ids) {
    if (const auto* why = plan::reason_withheld(snapshot->withheld, resource, id); why != nullptr)
      return fail(Kind::kUnavailable,
                  "device " + in_quotes(id) + " of " + resource + " is not handed out now: " + *why);
  }
  TRY(auto grant,
      grants::allocate(*planned, snapshot->faults, ids, snapshot->allocation, around(*snapshot, *planned, ids)));
  if (!grant.pool.empty()) TRY_STATUS(make_endpoint({mps_root_}, grant));
  mps::put_shared_memory(snapshot->allocation.paths, snapshot->pools, grant);
  return grant;
}

Result<grants::Grant> NodeAnswers::allocate(const std::string& resource, std::span<const std::string> ids) {
  auto grant = decide(resource, ids);
  {
    const std::lock_guard lock(mutex_);
    if (grant) {
      answered_.given.push_back(*grant);
      answered_.last_given = os::mono_now();
      if (!grant->pool.empty()) live_.given(*grant, os::mono_now());
    } else {
      answered_.refused.emplace_back(resource, grant.error());
    }
  }
  on_answered_();
  return grant;
}

Answered NodeAnswers::take_answered() {
  const std::lock_guard lock(mutex_);
  return std::exchange(answered_, {});
}

Result<std::vector<std::string>> NodeAnswers::prefer(const std::string& resource,
                                                     std::span<const std::string_view> available,
                                                     std::span<const std::string_view> must_include,
                                                     std::uint32_t size) {
  const auto snapshot = box_.get();
  const auto* planned = plan::find_resource(snapshot->plan, resource);
  if (planned == nullptr) return fail(Kind::kNotFound, resource + " is not advertised by this node any more");
  return grants::prefer(*planned, known_inventory(*snapshot), available, must_include, size,
                        snapshot->config.config.flags.plugin.shared_devices_allocation_policy,
                        around(*snapshot, *planned, {}));
}

}  // namespace tranche::node

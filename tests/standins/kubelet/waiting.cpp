// The tests' view of the stand-in: views, records, and waiting for changes.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "standins/kubelet/kubelet_impl.h"

namespace tranche::sim {
namespace {

using std::chrono::steady_clock;

std::string in_seconds(Duration within) {
  return fmt::format("{:.1f} s", std::chrono::duration<double>(within).count());
}

std::string describe(const ResourceView& view) {
  return fmt::format("kubelet sees {} of {} devices healthy, {}, {}", view.allocatable, view.capacity,
                     view.registered ? "registered as " + view.endpoint : "not registered",
                     view.watching ? "watching" : "not watching");
}

std::string describe_last(const std::vector<Call>& calls) {
  if (calls.empty()) return "no call was seen";
  static constexpr const char* kNames[] = {"Register", "GetDevicePluginOptions", "ListAndWatch",
                                           "GetPreferredAllocation", "Allocate"};
  const Call& last = calls.back();
  return fmt::format("{} calls were seen, the last one {} for {}, status {} {}", calls.size(),
                     kNames[static_cast<std::size_t>(last.method)], last.resource, last.status, last.message);
}

}  // namespace

ResourceView Kubelet::Impl::view_of(const std::string& resource) const {
  ResourceView view;
  view.resource = resource;
  if (const auto found = endpoints.find(resource); found != endpoints.end()) {
    view.registered = true;
    view.endpoint = found->second.name;
    view.watching = running && !found->second.stopped;
  }
  view.devices = ledger.devices(resource);
  view.capacity = view.devices.size();
  view.allocatable = static_cast<std::uint64_t>(std::ranges::count_if(view.devices, &Device::healthy));
  const auto allocated = ledger.allocated(resource);
  view.allocated.assign(allocated.begin(), allocated.end());
  return view;
}

Result<Registration> Kubelet::wait_for_registration(const std::string& resource, Duration within, std::uint64_t after) {
  std::unique_lock lock(impl_->mutex);
  std::optional<Registration> found;
  const auto look = [&] {
    for (const Registration& registration : impl_->registrations) {
      if (registration.resource == resource && registration.number > after) return found = registration, true;
    }
    return false;
  };
  if (!impl_->changed.wait_until(lock, steady_clock::now() + within, look)) {
    return fail(Kind::kTimeout, fmt::format("no registration of {} within {}: {}", resource, in_seconds(within),
                                            describe_last(impl_->calls)));
  }
  return *found;
}

Result<ResourceView> Kubelet::wait_for_devices(const std::string& resource,
                                               std::function<bool(const ResourceView&)> predicate, Duration within) {
  std::unique_lock lock(impl_->mutex);
  ResourceView view;
  const auto look = [&] {
    view = impl_->view_of(resource);
    return predicate(view);
  };
  if (!impl_->changed.wait_until(lock, steady_clock::now() + within, look)) {
    return fail(Kind::kTimeout,
                fmt::format("{} is not as waited for within {}: {}", resource, in_seconds(within), describe(view)));
  }
  return view;
}

Result<ResourceView> Kubelet::wait_for_healthy(const std::string& resource, std::uint64_t count, Duration within) {
  return wait_for_devices(resource, [count](const ResourceView& view) { return view.healthy() == count; }, within);
}

Result<Call> Kubelet::wait_for_call(std::function<bool(const Call&)> predicate, Duration within) {
  std::unique_lock lock(impl_->mutex);
  std::optional<Call> found;
  std::size_t seen = 0;
  const auto look = [&] {
    for (; !found && seen < impl_->calls.size(); ++seen) {
      if (predicate(impl_->calls[seen])) found = impl_->calls[seen];
    }
    return found.has_value();
  };
  if (!impl_->changed.wait_until(lock, steady_clock::now() + within, look)) {
    return fail(Kind::kTimeout,
                fmt::format("no such call within {}: {}", in_seconds(within), describe_last(impl_->calls)));
  }
  return *found;
}

Result<StreamMessage> Kubelet::wait_for_message(std::function<bool(const StreamMessage&)> predicate, Duration within) {
  std::unique_lock lock(impl_->mutex);
  std::optional<StreamMessage> found;
  std::size_t seen = 0;
  const auto look = [&] {
    for (; !found && seen < impl_->messages.size(); ++seen) {
      if (predicate(impl_->messages[seen])) found = impl_->messages[seen];
    }
    return found.has_value();
  };
  if (!impl_->changed.wait_until(lock, steady_clock::now() + within, look)) {
    return fail(Kind::kTimeout, fmt::format("no such message within {}: {} messages on {} streams were seen",
                                            in_seconds(within), impl_->messages.size(), impl_->streams_opened));
  }
  return *found;
}

ResourceView Kubelet::view(const std::string& resource) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->view_of(resource);
}

std::vector<ResourceView> Kubelet::views() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<ResourceView> result;
  for (const auto& [resource, endpoint] : impl_->endpoints) result.push_back(impl_->view_of(resource));
  return result;
}

std::vector<Registration> Kubelet::registrations() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->registrations;
}

std::vector<Call> Kubelet::calls() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->calls;
}

std::vector<StreamMessage> Kubelet::messages() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->messages;
}

}  // namespace tranche::sim

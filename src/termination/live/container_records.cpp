#include "termination/live/container_records.h"

#include <fmt/format.h>

#include <algorithm>

#include "os/files/files.h"
#include "termination/program_arguments.h"

namespace tranche::agent {
namespace {

constexpr Duration kLinger = std::chrono::minutes(1);
constexpr std::size_t kLongest = 4096;

// "containerd://<id>", "cri-o://<id>" in a pod's status; the bare id from a cgroup.
std::string bare_id(const std::string& id) {
  const auto scheme = id.find("://");
  return scheme == std::string::npos ? id : id.substr(scheme + 3);
}

}  // namespace

ContainerRecords::ContainerRecords(const std::string& run_dir, allocate::Paths paths)
    : dir_(run_dir + "/containers"), paths_(std::move(paths)) {}

Status ContainerRecords::adopt(MonoTime now) {
  TRY(const auto dir, host::Dir::create(dir_, 0755));
  TRY(const auto names, dir.list());
  for (const auto& name : names) {
    const auto text = dir.read(name, kLongest);
    const auto record = stopping::read_container_record(text ? std::string_view(*text) : "");
    if (!stopping::is_container_id(name) || record.drain.empty() || record.grant.empty()) {
      TRY_STATUS(dir.remove_tree(name));
    } else {
      kept_.insert_or_assign(name, Kept{std::string(record.pool), std::string(record.grant), now});
    }
  }
  adopted_ = true;
  return {};
}

Status ContainerRecords::write(const std::string& id, const Kept& record) {
  TRY(const auto dir, host::Dir::create(dir_, 0755));
  return dir.write_atomically(id,
                              fmt::format("pool={}\ngrant={}\ndrain={}/drain\n", record.pool, record.grant,
                                          paths_.endpoint(record.pool, record.grant)),
                              0644);
}

bool ContainerRecords::over(const std::string& id, const Kept& record, const std::vector<ContainerGrant>& containers,
                            MonoTime now) const {
  if (std::ranges::find(containers, id, &ContainerGrant::id) != containers.end()) return false;
  return now - record.known >= kLinger ||
         std::ranges::find(containers, record.grant, &ContainerGrant::grant) != containers.end();
}

Status ContainerRecords::follow(std::vector<ContainerGrant> containers, MonoTime now) {
  if (!adopted_) TRY_STATUS(adopt(now));
  for (auto& container : containers) container.id = bare_id(container.id);
  std::erase_if(containers,
                [](const ContainerGrant& c) { return !stopping::is_container_id(c.id) || c.grant.empty(); });
  for (const auto& container : containers) {
    const Kept record{container.pool, container.grant, now};
    const auto it = kept_.find(container.id);
    if (it == kept_.end() || it->second.pool != record.pool || it->second.grant != record.grant)
      TRY_STATUS(write(container.id, record));
    kept_.insert_or_assign(container.id, record);
  }
  for (auto it = kept_.begin(); it != kept_.end();) {
    if (!over(it->first, it->second, containers, now)) {
      ++it;
      continue;
    }
    TRY(const auto dir, host::Dir::create(dir_, 0755));
    TRY_STATUS(dir.remove(it->first));
    it = kept_.erase(it);
  }
  return {};
}

}  // namespace tranche::agent

#include "mps/endpoints/endpoints.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "mps/limits/tenant_limits.h"
#include "os/files/files.h"
#include "os/log/log.h"
#include "os/process/threads.h"

namespace tranche::mps {
namespace {

constexpr std::size_t kLongestBlock = std::size_t{1} << 20;  // of an environment
constexpr std::size_t kLongestVariable = 4096;               // bytes of a value; the rest is cut off

// "" also if the process cannot be inspected (no CAP_SYS_PTRACE): other rules decide then. Of the environment of the
// process's start; for a duplicate name, the first value, as getenv(3) returns.
std::string why_not(int pid, const std::vector<std::string>& devices) {
  Result<std::string> block = std::string();
  const bool is_known = os::look_at_living_thread(pid, [&](const std::string& folder, pid_t) {
    block = os::read_file(folder + "/environ", kLongestBlock);
    return false;
  });
  if (!is_known) return "its environment cannot be read: it has exited, or its threads end while they are read";
  if (!block) return {};
  const std::string wanted = fmt::format("{}=", plan::kPinnedLimitVariable);
  for (const auto entry : split(*block, '\0'))
    if (entry.starts_with(wanted)) return lifting(entry.substr(wanted.size(), kLongestVariable), devices).value_or("");
  return {};
}

}  // namespace

ClientLooks::ClientLooks(os::Loop& loop, Duration patience) : loop_(loop), patience_(patience) {
  results_->loop = &loop;
}

ClientLooks::~ClientLooks() {
  const std::lock_guard lock(results_->mutex);
  results_->loop = nullptr;
  if ((late_ > 0 || !waiting_.empty())) worker_->leave_behind();
}

void ClientLooks::look(int pid, std::vector<std::string> devices, Done done) {
  if (pid <= 0 || late_ > 0) return done("");
  const auto id = next_++;
  auto& waiting = waiting_.try_emplace(id, loop_, std::move(done)).first->second;
  waiting.timer.start(patience_, [this, id, pid] { late(id, pid); });
  worker_->run([this, id, pid, devices = std::move(devices), results = results_, awaited = waiting.awaited] {
    auto why = *awaited ? why_not(pid, devices) : std::string();
    const std::lock_guard lock(results->mutex);
    if (results->loop == nullptr) return;
    results->loop->post([this, id, results, why = std::move(why)] {
      if (results->loop != nullptr) answered(id, why);  // it changes on this thread only
    });
  });
}

void ClientLooks::answered(std::uint64_t id, const std::string& why_not) {
  auto waiting = waiting_.extract(id);
  if (waiting.empty()) {
    --late_;
    return;
  }
  waiting.mapped().done(why_not);
}

void ClientLooks::late(std::uint64_t id, int pid) {
  auto waiting = waiting_.extract(id);
  if (waiting.empty()) return;
  ++late_;
  *waiting.mapped().awaited = false;
  if (const auto suppressed = pace_.due("", "late", loop_.now())) {
    log::warning("endpoint.look_late", {{"pid", pid},
                                        {"effect",
                                         "until that is over, clients are let in without a look at whether their "
                                         "environment lifts their memory limit; the guard holds them"},
                                        {"suppressed", *suppressed}});
  }
  waiting.mapped().done("");
}

}  // namespace tranche::mps

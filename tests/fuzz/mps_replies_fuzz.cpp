// Every reply parser over the same text: no crash, numbers in range, and what limits are read compares with itself.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "mps/control/daemon_replies.h"

namespace {

void pids_are_sane(const tranche::Result<tranche::mps::Pids>& pids, std::size_t size) {
  if (!pids) return;
  if (pids->size() > size) std::abort();
  for (const int pid : *pids) {
    if (pid <= 0) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  using namespace tranche::mps;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  pids_are_sane(parse_server_list(text), size);
  pids_are_sane(parse_health_session(text), size);
  (void)parse_server_status(text);
  (void)parse_version(text);
  (void)offers_multiuser(text);
  if (const auto percent = parse_thread_percentage(text)) {
    if (*percent > Percent::whole(100) || parse_thread_percentage(to_string(*percent)) != *percent) std::abort();
  }
  const DaemonLimits limits{{{"GPU-3f2a1b4c-0000-1111-2222-333344445555", mib(14377)}}, Percent::whole(10)};
  (void)parse_apply_session(limits, text);
  if (const auto reply = parse_server_session(limits, text)) {
    pids_are_sane(reply->clients, size);
    if (reply->limits) (void)disagreement(limits, *reply->limits);
  }
  for (const auto& servers : {Pids{}, Pids{12, 13}}) {
    if (const auto turn = parse_turn_session(servers, limits, text)) pids_are_sane(turn->servers, size);
  }
  if (const auto read = parse_read_session(limits, text)) (void)disagreement(limits, *read);
  if (const auto memory = parse_memory_limit(text); memory && *memory) {
    if (((**memory).value & ((1u << 20) - 1)) != 0) std::abort();  // whole MiB
  }
  return 0;
}

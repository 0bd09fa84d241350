#pragma once
// The arithmetic and the parsing rules of MPS limits as measured on driver 580 (evidence: README-mps.md): how a daemon,
// a server and a client parse percentages and memory limits, and the resulting limits of a client. Does not correct
// surprising results: they are the purpose. Pure; units are bytes and SMs.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::sim {

// SMs of a client: max(8, 2*floor(pct*SMs/200)); never more than the GPU has. (Section 1.)
std::uint32_t sms_for(double percent, std::uint32_t sm_count);

// A context's own memory: 71.75 MiB with 12 SMs to 514 MiB with 132, growing with the SMs it may use. (Section 1.)
std::uint64_t context_bytes(std::uint32_t sms);
inline constexpr std::uint64_t kServerBytes = 66ull << 20;  // a server's memory on each of its GPUs

// Clients per server and GPU (section 3; 16 before Volta).
inline constexpr int kClientsPerGpu = 48;
inline constexpr int kClientsPerGpuBeforeVolta = 16;

// "12.5" for set_…_active_thread_percentage: above 0, at most 100. nullopt = the present value stays.
std::optional<double> parse_percentage(std::string_view text);
std::string percentage_text(double percent);  // "12.5", "100.0", "33.3"

// The value of set_…_device_pinned_mem_limit as bytes: the leading integer, in GiB if a G follows it and in MiB
// otherwise. So 1630 reads back as 1G, 512K as 512M, 1.5G as 1M, 2T as 2M, and -1G wraps to 17179869183G. 0 if there is
// no integer (or it is 0): that removes the limit. (transcripts/lives.txt)
std::uint64_t parse_daemon_memory(std::string_view text);
std::string memory_text(std::uint64_t bytes);  // "4G" for 4097M, "500M": whole units, rounded down

// Device key → bytes, in the order in which they were set. Keys are stored as written: ordinals and UUIDs coexist.
class MemoryLimits {
 public:
  void set(const std::string& key, std::uint64_t bytes);           // 0 bytes: removes the limit of that key
  std::optional<std::uint64_t> get(const std::string& key) const;  // by exactly that spelling
  // The effective limit on a GPU. If both spellings are set, the ordinal's applies, whichever came later and whichever
  // is smaller (transcripts: 0=500M beat a later GPU-…=4096M; 0=5G beat an earlier GPU-…=3G).
  std::optional<std::uint64_t> for_gpu(int ordinal, const std::string& uuid) const;
  const std::vector<std::pair<std::string, std::uint64_t>>& entries() const { return entries_; }

 private:
  std::vector<std::pair<std::string, std::uint64_t>> entries_;
};

// The effect of CUDA_MPS_PINNED_DEVICE_MEM_LIMIT on a client (section 1). `uuids` are its visible devices, in its
// order.
struct ClientMemory {
  bool lifted = false;  // one invalid entry removes all limits, including the daemon's
  std::map<std::string, std::uint64_t> by_uuid;
};
ClientMemory read_client_memory(const std::optional<std::string>& value, const std::vector<std::string>& uuids);

// The smaller of the server's and the client's limit; nullopt = none.
std::optional<std::uint64_t> effective_memory(const ClientMemory& client, const std::string& uuid,
                                              std::optional<std::uint64_t> server);

// CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: a number in (0, 100], otherwise ignored (section 1); the smaller of both applies.
double effective_percentage(const std::optional<std::string>& value, double server);

// A client's work in flight on one GPU: kernels of one length, and the remaining time. A client that is stopped
// (SIGSTOP) submits no more work, so the remaining time falls to 0.
struct WorkInFlight {
  bool tensor = false;  // on tensor cores, as cuBLAS multiplies bf16 matrices
  std::int64_t kernel_ns = 0;
  std::int64_t left_ns = 0;
};

// Whether the client's death kills its peers. Plain kernels: always from 20 ms; from 5 ms only with several queued;
// never with 1 ms. Tensor kernels: 6 ms killed 6 of 6, 1 to 3 ms none; the stand-in's threshold is 5 ms.
bool death_hurts_peers(const WorkInFlight& work);

// Whether they die when another process has held the dead client's descriptors and closes them now: from kernels of
// 100 ms on; with kernels of up to 50 ms they do not (docs/internals/evidence/deaths.md).
bool held_death_hurts_peers(const WorkInFlight& work);

// Whether `terminate_client` kills them. It ends plain kernels cleanly, and kills the peers of tensor kernels that a
// death would kill too.
bool termination_hurts_peers(const WorkInFlight& work);

}  // namespace tranche::sim

#pragma once
// The arithmetic and the text rules of MPS limits as measured on driver 580 (docs of the evidence: README-mps.md): how
// a daemon, a server and a client read percentages and memory limits, and what a client then gets. It does not judge
// what would be sensible: the traps are the point. Pure; units are bytes and SMs.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::sim {

// SMs of a client: max(8, 2*floor(pct*SMs/200)); never more than the GPU has. (Section 1.)
std::uint32_t sms_for(double percent, std::uint32_t sm_count);

// A context's own memory: 71.75 MiB at 12 SMs to 514 MiB at 132, growing with the SMs it may use. (Section 1.)
std::uint64_t context_bytes(std::uint32_t sms);
inline constexpr std::uint64_t kServerBytes = 66ull << 20;  // what a server holds on each of its GPUs

// Clients per server and GPU (section 3; 16 before Volta).
inline constexpr int kClientsPerGpu = 48;
inline constexpr int kClientsPerGpuBeforeVolta = 16;

// "12.5" for set_…_active_thread_percentage: above 0, at most 100. nullopt = the value in force stays.
std::optional<double> parse_percentage(std::string_view text);
std::string percentage_text(double percent);  // "12.5", "100.0", "33.3"

// The value of set_…_device_pinned_mem_limit as bytes: the leading integer, in GiB when a G follows it and in MiB
// whatever else does. So 1630 reads back as 1G, 512K as 512M, 1.5G as 1M, 2T as 2M, and -1G wraps to 17179869183G. 0
// when there is no integer (or it is 0): that takes the limit away. (transcripts/lives.txt)
std::uint64_t parse_daemon_memory(std::string_view text);
std::string memory_text(std::uint64_t bytes);  // "4G" for 4097M, "500M": whole units, rounded down

// Device key → bytes, in the order in which they were set. A key is kept as written: ordinals and UUIDs coexist.
class MemoryLimits {
 public:
  void set(const std::string& key, std::uint64_t bytes);           // 0 bytes: no limit for that key any more
  std::optional<std::uint64_t> get(const std::string& key) const;  // by exactly that spelling
  // The limit in force on a GPU. Where both spellings are set, the ordinal's holds, whichever came later and whichever
  // is smaller (transcripts: 0=500M beat a later GPU-…=4096M; 0=5G beat an earlier GPU-…=3G).
  std::optional<std::uint64_t> for_gpu(int ordinal, const std::string& uuid) const;
  const std::vector<std::pair<std::string, std::uint64_t>>& entries() const { return entries_; }

 private:
  std::vector<std::pair<std::string, std::uint64_t>> entries_;
};

// What CUDA_MPS_PINNED_DEVICE_MEM_LIMIT does to a client (section 1). `uuids` are the devices that it sees, in its
// order.
struct ClientMemory {
  bool lifted = false;  // one bad entry and every limit is gone, the daemon's too
  std::map<std::string, std::uint64_t> by_uuid;
};
ClientMemory read_client_memory(const std::optional<std::string>& value, const std::vector<std::string>& uuids);

// The smaller of the server's and the client's limit; nullopt = none in force.
std::optional<std::uint64_t> effective_memory(const ClientMemory& client, const std::string& uuid,
                                              std::optional<std::uint64_t> server);

// CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: a number in (0, 100] or ignored (section 1); the smaller of both holds.
double effective_percentage(const std::optional<std::string>& value, double server);

// What a client has in flight on one GPU: kernels of one length, and how much of them is still to run. A client that is
// stopped (SIGSTOP) submits nothing more, so that what is left falls to 0.
struct WorkInFlight {
  bool tensor = false;  // on tensor cores, as cuBLAS multiplies bf16 matrices
  std::int64_t kernel_ns = 0;
  std::int64_t left_ns = 0;
};

// Does the death of the client kill its peers? Plain kernels: from 20 ms on always; from 5 ms on only with several
// queued; 1 ms never. Tensor kernels: 6 ms killed 6 of 6, 1 to 3 ms none; we draw the line at 5 ms.
bool death_hurts_peers(const WorkInFlight& work);

// Does `terminate_client` kill them? It ends plain kernels cleanly, and kills the peers of tensor kernels that a death
// would kill too.
bool termination_hurts_peers(const WorkInFlight& work);

}  // namespace tranche::sim

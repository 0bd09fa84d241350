#include "agent/node/mps_calls.h"

#include "guard/mps_wire.h"

namespace tranche::agent {
namespace {
// A client with work in flight is drained in 11 to 13 ms (measured); the daemon may have others to serve first.
constexpr Duration kDeadline = std::chrono::seconds(5);
}  // namespace

void MpsCalls::terminate(const std::string& pool, const std::vector<std::uint32_t>& pids, const std::string& reason,
                         std::function<void(Result<std::vector<mps::Terminated>>)> done) {
  client_->request(guard::terminate_request(pool, pids, reason), kDeadline,
                   [done = std::move(done)](const Result<std::string>& reply) {
                     if (!reply) return done(std::unexpected(reply.error()));
                     done(guard::read_terminated(*reply));
                   });
}

void MpsCalls::admit(const std::string& pool, const std::string& grant, bool open, const std::string& reason,
                     std::function<void(Status)> done) {
  client_->request(guard::admit_request(pool, grant, open, reason), kDeadline,
                   [done = std::move(done)](const Result<std::string>& reply) {
                     if (!reply) return done(std::unexpected(reply.error()));
                     done(guard::read_reply(*reply));
                   });
}

}  // namespace tranche::agent

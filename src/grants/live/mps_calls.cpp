#include "grants/live/mps_calls.h"

#include <algorithm>
#include <utility>

#include "guard/mps_wire.h"

namespace tranche::agent {
namespace {

constexpr Duration kAdmissionDeadline = std::chrono::seconds(5);
// `tranche mps` stops the clients, waits for their queued work for sharing.mps.stopPatience (60 s at most), does so up
// to three times more when their container continues them, and kills them. It answers when they have exited. One that
// ends or restarts closes the connection, which is an answer at once; the deadline is for one that hangs.
constexpr Duration kTerminateDeadline = 4 * std::chrono::seconds(60) + std::chrono::seconds(10);

}  // namespace

void MpsCalls::request(std::string line, Duration deadline, std::function<void(const Result<std::string>&)> done) {
  auto free = std::ranges::find(lines_, false, [](const auto& each) { return each->busy; });
  if (free == lines_.end()) {
    lines_.push_back(std::make_unique<Line>(Line{host::StatusClient::open(loop_, socket_)}));
    free = std::prev(lines_.end());
  }
  Line* const used = free->get();
  used->busy = true;
  used->client->request(std::move(line), deadline, [used, done = std::move(done)](const Result<std::string>& reply) {
    used->busy = false;
    done(reply);
  });
}

void MpsCalls::terminate(const std::string& pool, const std::vector<std::uint32_t>& pids, const std::string& reason,
                         std::function<void(Result<std::vector<mps::Terminated>>)> done) {
  request(guard::terminate_request(pool, pids, reason), kTerminateDeadline,
          [done = std::move(done)](const Result<std::string>& reply) {
            if (!reply) return done(std::unexpected(reply.error()));
            done(guard::read_terminated(*reply));
          });
}

void MpsCalls::drain(std::string request_line, std::function<void(const Result<std::string>&)> done) {
  request(std::move(request_line), kTerminateDeadline, std::move(done));
}

void MpsCalls::admit(const std::string& pool, const std::string& grant, bool open, const std::string& reason,
                     std::function<void(Status)> done) {
  request(guard::admit_request(pool, grant, open, reason), kAdmissionDeadline,
          [done = std::move(done)](const Result<std::string>& reply) {
            if (!reply) return done(std::unexpected(reply.error()));
            done(guard::read_reply(*reply));
          });
}

}  // namespace tranche::agent

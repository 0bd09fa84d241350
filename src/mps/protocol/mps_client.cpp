#include "mps/protocol/mps_client.h"

#include <utility>

namespace tranche::mps {
namespace {

constexpr Duration kRequestDeadline = std::chrono::seconds(5);
// `tranche mps` stops the clients, waits for their queued work for sharing.mps.stopPatience (60 s at most), does so up
// to three times more when their container continues them, and kills them. It answers when they have exited. One that
// ends or restarts closes the connection, which is an answer at once; the deadline is for one that hangs.
constexpr Duration kEndDeadline = 4 * std::chrono::seconds(60) + std::chrono::seconds(10);

}  // namespace

std::string mps_socket(const std::string& mps_root) {
  return mps_root + "/mps.sock";
}

MpsClient::MpsClient(os::Loop& loop, const std::string& mps_root)
    : loop_(loop), socket_(mps_socket(mps_root)), client_(loop, socket_) {}

void MpsClient::request(const MpsRequest& request, Done done) {
  const auto replied = [done = std::move(done)](const Result<std::string>& line) {
    done(line ? read_reply(*line) : std::unexpected(line.error()));
  };
  if (std::holds_alternative<TerminateRequest>(request))
    client_.request_at_once(request_line(request), kEndDeadline, replied);
  else
    client_.request(request_line(request), kRequestDeadline, replied);
}

void MpsClient::follow(std::function<void(const PoolReports& reports)> on_reports) {
  watcher_ =
      std::make_unique<os::StatusWatcher>(loop_, socket_, [this, on_reports = std::move(on_reports)](const auto& line) {
        auto reports = parse_pool_reports(line);
        if (reports) return on_reports(*reports);
        PoolReports none;
        none.problem = line.empty() ? "tranche mps is not running or hangs (no answer on " + socket_ + ")"
                                    : to_string(reports.error());
        on_reports(none);
      });
}

}  // namespace tranche::mps

#include "node/grants/holdings.h"

#include <algorithm>

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;

constexpr Duration kKubeletDeadline = 3s;
constexpr Duration kEvery = 30s;
constexpr Duration kEveryWhenReported = 5min;
constexpr Duration kFirstBehind = 100ms;

}  // namespace

Holdings::Holdings(host::Loop& loop, host::Worker& worker, std::string socket, OnListed on_listed)
    : loop_(loop), worker_(worker), socket_(std::move(socket)), on_listed_(std::move(on_listed)) {}

void Holdings::ask_in(Duration delay) {
  timer_.start(delay, [this] { ask(); });
}

void Holdings::ask() {
  if (asked_) {
    again_ = true;
    return;
  }
  asked_ = true;
  worker_.run([this, socket = socket_, asked = loop_.now()] {
    auto listed = host::list_pod_resources(socket, kKubeletDeadline);
    loop_.post([this, asked, listed = std::move(listed)]() mutable {
      asked_ = false;
      if (listed) answer_of_ = asked;
      on_listed_(std::move(listed));
    });
  });
}

void Holdings::settle(bool behind, bool pods_reported) {
  behind_wait_ = !behind ? Duration::zero() : std::clamp<Duration>(behind_wait_ * 2, kFirstBehind, kEvery);
  if (std::exchange(again_, false)) return ask();
  ask_in(behind ? behind_wait_ : pods_reported ? kEveryWhenReported : kEvery);
}

}  // namespace tranche::agent

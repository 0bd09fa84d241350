#pragma once
// A stand-in API server, our client, and a loop that runs until something is so.
#include <gmock/gmock.h>

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kube/access.h"
#include "kube/client/kube_client.h"
#include "os/files/scratch_fixture.h"
#include "os/loop/loop.h"
#include "standins/kube/api_server.h"

namespace tranche::kube {

inline constexpr Duration kSoon = std::chrono::seconds(60);  // a deadline, not an expectation

class KubeBed : public ::testing::Test {
 protected:
  KubeBed() : server_(sim::ApiServer::start()), loop_(*os::Loop::open()) { write("token", "first"); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(scratch_ / (name + ".new")) << text;
    ASSERT_EQ(std::rename((scratch_ / (name + ".new")).c_str(), (scratch_ / name).c_str()), 0);
  }
  Access access() const {
    const auto parsed = parse_kubeconfig({{server_->kubeconfig(scratch_ / "token"), "kubeconfig"}});
    EXPECT_TRUE(parsed.access);
    return parsed.access.value_or(Access{});
  }
  void open() {
    auto client = KubeClient::open(*loop_, access());
    ASSERT_TRUE(client) << to_string(client.error());
    client_ = *std::move(client);
  }
  // Runs the loop; looks every millisecond, since the server has threads of its own.
  bool until(const std::function<bool()>& holds, Duration most = kSoon) {
    const MonoTime end = loop_->now() + most;
    bool held = false;
    std::function<void()> look = [&] {
      held = holds();
      if (held || loop_->now() > end) return loop_->stop();
      loop_->after(std::chrono::milliseconds(1), look);
    };
    loop_->after(Duration::zero(), look);
    loop_->run();
    return held;
  }
  std::size_t count(const std::function<bool(const sim::ApiRequest&)>& which) const {
    const auto all = server_->requests();
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), which));
  }
  std::size_t watch_requests() const {
    return count([](const sim::ApiRequest& r) { return r.is_watch(); });
  }
  std::size_t list_requests() const {
    return count([](const sim::ApiRequest& r) { return r.path == "/api/v1/pods" && !r.is_watch(); });
  }

  os::Scratch scratch_;
  std::unique_ptr<sim::ApiServer> server_;
  std::unique_ptr<os::Loop> loop_;
  std::unique_ptr<KubeClient> client_;
};

}  // namespace tranche::kube

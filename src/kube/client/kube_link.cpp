#include "kube/client/kube_link.h"

#include "kube/client/find_access.h"
#include "os/log/log.h"

namespace tranche::kube {

KubeLink::KubeLink(os::Loop& loop, os::Worker& worker, std::string kubeconfig, config::Environment environment)
    : loop_(loop) {
  worker.run([this, &loop, alive = alive_, kubeconfig = std::move(kubeconfig), environment = std::move(environment)] {
    std::vector<Problem> problems;
    auto access = find_access(kubeconfig, environment, problems);
    if (access) (void)KubeClient::load();  // open() has its error
    loop.post([this, alive, problems = std::move(problems), access = std::move(access)] {
      if (*alive) settle(problems, access);
    });
  });
}

KubeLink::~KubeLink() {
  *alive_ = false;
}

void KubeLink::settle(const std::vector<Problem>& problems, const Result<Access>& access) {
  settled_ = true;
  for (const auto& problem : problems) log::warning("kube.problem", {{"text", to_string(problem)}});
  if (!access) {
    why_ = to_string(access.error());
  } else if (auto client = KubeClient::open(loop_, *access)) {
    client_ = *std::move(client);
    server_ = access->server.url();
    source_ = access->source;
  } else {
    why_ = to_string(client.error());
  }
  for (const auto& callback : std::exchange(waiting_, {})) callback();
}

void KubeLink::when_settled(std::function<void()> callback) {
  if (!settled_) return waiting_.push_back(std::move(callback));
  loop_.post([alive = alive_, callback = std::move(callback)] {
    if (*alive) callback();
  });
}

}  // namespace tranche::kube

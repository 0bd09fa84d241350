#include "kube/client/kube_link.h"

#include "kube/client/find_access.h"
#include "os/log/log.h"

namespace tranche::kube {

struct KubeLink::Prepared {
  std::vector<Problem> problems;
  Result<Access> access = fail(Kind::kNotFound, "");
  Result<std::shared_ptr<const CurlLibrary>> curl = fail(Kind::kNotFound, "");
};

KubeLink::KubeLink(os::Loop& loop, os::Worker& worker, std::string kubeconfig, config::Environment environment)
    : loop_(loop) {
  worker.run([this, &loop, alive = alive_, kubeconfig = std::move(kubeconfig), environment = std::move(environment)] {
    auto prepared = std::make_shared<Prepared>();
    prepared->access = find_access(kubeconfig, environment, prepared->problems);
    if (prepared->access) prepared->curl = KubeClient::load();
    loop.post([this, alive, prepared] {
      if (*alive) settle(std::move(*prepared));
    });
  });
}

KubeLink::~KubeLink() {
  *alive_ = false;
}

void KubeLink::settle(Prepared prepared) {
  settled_ = true;
  for (const auto& problem : prepared.problems) log::warning("kube.problem", {{"text", to_string(problem)}});
  if (!prepared.access) {
    why_ = to_string(prepared.access.error());
  } else if (!prepared.curl) {
    why_ = to_string(prepared.curl.error());
  } else if (auto client = KubeClient::open(loop_, *std::move(prepared.curl), *prepared.access)) {
    client_ = *std::move(client);
    server_ = prepared.access->server.url();
    source_ = prepared.access->source;
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

// The two writers that use the API server. Both read, compare and write for the version that was read; a writer that
// loses a conflict starts again.
#include <fmt/format.h>

#include "kube/api_status.h"
#include "kube/url.h"
#include "labels/live/label_writer.h"
#include "labels/node_labels.h"

namespace tranche::agent {
namespace {

constexpr int kUnprocessable = 422;
constexpr int kMostRounds = 5;

bool is_good(const host::KubeAnswer& answer) {
  return answer.status == 200 || answer.status == kube::http::kCreated;
}

Kind kind_of(int status) {
  switch (status) {
    case kube::http::kForbidden:
      return Kind::kDenied;
    case kube::http::kNotFound:
      return Kind::kNotFound;
    case kube::http::kConflict:
      return Kind::kConflict;
    case kube::http::kBadRequest:
    case kUnprocessable:
      return Kind::kInvalid;
    default:  // a token that is being replaced, rate limiting, a server error
      return Kind::kUnavailable;
  }
}

// `what`: "see the node n1".
Error refused(const host::KubeAnswer& answer, const std::string& what) {
  if (answer.status == 0) return {Kind::kUnavailable, "no answer to a request to " + what + ": " + answer.why, "", 0};
  const auto status = kube::status_of_body(answer.status, answer.body);
  return {kind_of(answer.status), fmt::format("the API server refuses to {}: {}", what, status.message), "",
          answer.status};
}

// Runs one step after another, with at most one request in progress.
class ClusterWriter : public LabelWriter {
 public:
  explicit ClusterWriter(host::KubeClient& client) : client_(client) {}
  ~ClusterWriter() override { client_.cancel(call_); }

  void write(const label::Labels& labels, Done done) override {
    client_.cancel(call_);
    labels_ = labels;
    done_ = std::move(done);
    written_ = {};
    rounds_ = 0;
    begin();
  }

 protected:
  virtual void begin() = 0;

  void again_after(const host::KubeAnswer& answer, const std::string& what) {
    if (++rounds_ >= kMostRounds) return end(std::unexpected(refused(answer, what)));
    begin();
  }
  void end(Result<Written> result) {
    call_ = 0;
    const Done done = std::exchange(done_, nullptr);
    if (done) done(std::move(result));
  }
  void succeed(bool changed) {
    written_.changed = changed;
    end(std::move(written_));
  }
  // The step after a response, once its request is no longer in progress.
  template <class Next>
  host::KubeClient::OnAnswer to(Next next) {
    return [this, next](const host::KubeAnswer& answer) {
      call_ = 0;
      next(answer);
    };
  }

  host::KubeClient& client_;
  host::KubeClient::Id call_ = 0;
  label::Labels labels_;
  Written written_;

 private:
  Done done_;
  int rounds_ = 0;
};

class NodeFeature final : public ClusterWriter {
 public:
  NodeFeature(host::KubeClient& client, label::FeaturePlace place, std::string pod_name)
      : ClusterWriter(client), place_(std::move(place)), pod_name_(std::move(pod_name)) {}

 private:
  void begin() override {
    if (pod_name_.empty() || owners_known_) return look();
    const std::string pod =
        "/api/v1/namespaces/" + place_.feature_namespace + "/pods/" + kube::percent_encoded(pod_name_);
    call_ = client_.get(pod, to([this](const auto& a) { on_pod(a); }));
  }
  void on_pod(const host::KubeAnswer& answer) {
    auto owners = is_good(answer) ? label::owners_of_pod(answer.body)
                                  : std::unexpected(refused(answer, "see the pod " + pod_name_));
    owners_known_ = owners.has_value();
    if (owners)
      place_.owners = *std::move(owners);
    else
      written_.remarks.push_back("the labels will outlive this DaemonSet: " + to_string(owners.error()));
    look();
  }
  void look() {
    call_ = client_.get(label::feature_path(place_), to([this](const auto& a) { on_object(a); }));
  }

  void on_object(const host::KubeAnswer& answer) {
    if (answer.status == kube::http::kNotFound && labels_.empty()) return succeed(false);
    if (answer.status == kube::http::kNotFound) {
      call_ = client_.create(label::features_path(place_), label::new_feature(place_, labels_),
                             to([this](const auto& a) { on_written(a); }));
      return;
    }
    if (!is_good(answer)) return end(std::unexpected(refused(answer, "see " + what())));
    auto changed = label::changed_feature(answer.body, place_, labels_);
    if (!changed) return end(std::unexpected(std::move(changed).error()));
    const auto& object = *changed;
    if (!object) return succeed(false);
    call_ = client_.replace(label::feature_path(place_), *object, to([this](const auto& a) { on_written(a); }));
  }
  void on_written(const host::KubeAnswer& answer) {
    if (is_good(answer)) return succeed(true);
    if (answer.status == kube::http::kConflict) return again_after(answer, "write " + what());
    Error error = refused(answer, "write " + what());
    if (error.kind == Kind::kNotFound)
      error.what += "; the cluster has no node feature discovery: install it, or write labels elsewhere";
    end(std::unexpected(std::move(error)));
  }
  std::string what() const {
    return "the NodeFeature object of " + place_.node + " in the namespace " + place_.feature_namespace;
  }

  label::FeaturePlace place_;
  std::string pod_name_;
  bool owners_known_ = false;
};

class NodeObject final : public ClusterWriter {
 public:
  NodeObject(host::KubeClient& client, std::string node_name) : ClusterWriter(client), node_(std::move(node_name)) {}

 private:
  void begin() override {
    call_ = client_.get(path(), to([this](const auto& a) { on_node(a); }));
  }
  void on_node(const host::KubeAnswer& answer) {
    if (!is_good(answer)) return end(std::unexpected(refused(answer, "see the node " + node_)));
    auto change = label::change_node(answer.body, labels_);
    if (!change) return end(std::unexpected(std::move(change).error()));
    written_.foreign = std::move(change->foreign);
    const auto& patch = change->patch;
    if (!patch) return succeed(false);
    call_ = client_.patch(path(), *patch, to([this](const auto& a) { on_written(a); }));
  }
  void on_written(const host::KubeAnswer& answer) {
    if (is_good(answer)) return succeed(true);
    if (answer.status == kube::http::kConflict) return again_after(answer, "label the node " + node_);
    end(std::unexpected(refused(answer, "label the node " + node_)));
  }
  std::string path() const { return "/api/v1/nodes/" + kube::percent_encoded(node_); }

  std::string node_;
};

}  // namespace

std::unique_ptr<LabelWriter> node_feature(host::KubeClient& client, label::FeaturePlace place, std::string pod_name) {
  return std::make_unique<NodeFeature>(client, std::move(place), std::move(pod_name));
}

std::unique_ptr<LabelWriter> node_object(host::KubeClient& client, std::string node_name) {
  return std::make_unique<NodeObject>(client, std::move(node_name));
}

}  // namespace tranche::agent

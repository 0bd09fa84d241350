#include "labels/live/label_writer.h"

#include <functional>
#include <optional>

#include "base/text.h"
#include "kube/access.h"
#include "kube/object.h"
#include "labels/outputs.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::labels {
namespace {

constexpr int kMostRounds = 5;
constexpr const char* kTheirTemporaryFolder = "gfd-tmp";  // left beside the file by older versions of NVIDIA's program

class File final : public LabelWriter {
 public:
  explicit File(const std::string& path) : place_(os::parts_of(path)) {}
  void write(const Labels& labels, Done done) override { done(put(file_text(labels))); }
  void clean_up() override {
    const auto folder = os::Dir::open(place_.directory);
    if (!folder) return;
    (void)folder->remove(place_.name);
    (void)folder->remove_tree(kTheirTemporaryFolder);
  }

 private:
  Result<Written> put(const std::string& text) {
    TRY(const auto folder, os::Dir::open(place_.directory));
    const auto there = folder.read(place_.name);
    if (there && *there == text) return Written{};
    TRY_STATUS(folder.write_atomically(place_.name, text));
    return Written{.changed = true, .foreign = {}, .remarks = {}};
  }
  os::PathParts place_;
};

constexpr const char* kRefuses = "the API server refuses to ";

// Reads, compares and writes for the version that was read; one that loses a conflict starts again. One step after
// another, with at most one request in progress.
class ClusterWriter final : public LabelWriter {
 public:
  ClusterWriter(kube::KubeClient& client, bool is_feature, const LabelTarget& target)
      : client_(client),
        is_feature_(is_feature),
        target_(target),
        path_(is_feature ? feature_path(target) : kube::node_path(kube::percent_encoded(target.node_name))),
        what_(is_feature
                  ? "the NodeFeature object of " + target.node_name + " in the namespace " + target.feature_namespace
                  : "the node " + target.node_name) {}

  void write(const Labels& labels, Done done) override {
    labels_ = labels;
    done_ = std::move(done);
    written_ = {};
    rounds_ = 0;
    begin();
  }

 private:
  void begin() {
    if (!is_feature_ || target_.pod_name.empty() || owners_known_) return look();
    const std::string pod =
        "/api/v1/namespaces/" + target_.feature_namespace + "/pods/" + kube::percent_encoded(target_.pod_name);
    request_ = client_.get(pod, std::bind_front(&ClusterWriter::on_pod, this));
  }
  void on_pod(const kube::KubeAnswer& answer) {
    auto owners = kube::succeeded(answer)
                      ? owners_of_pod(answer.body)
                      : std::unexpected(kube::refusal(answer, kRefuses + ("see the pod " + target_.pod_name)));
    owners_known_ = owners.has_value();
    if (owners)
      target_.owners = *std::move(owners);
    else
      written_.remarks.push_back("the labels will outlive this DaemonSet: " + to_string(owners.error()));
    look();
  }
  void look() { request_ = client_.get(path_, std::bind_front(&ClusterWriter::on_object, this)); }

  void on_object(const kube::KubeAnswer& answer) {
    const bool none = is_feature_ && answer.status == kube::http::kNotFound;
    if (none && labels_.empty()) return end(std::move(written_));
    const auto then = std::bind_front(&ClusterWriter::on_written, this);
    if (none) {
      request_ = client_.create(features_path(target_), new_feature(target_, labels_), then);
      return;
    }
    if (!kube::succeeded(answer)) return end(std::unexpected(kube::refusal(answer, kRefuses + ("see " + what_))));
    auto changed = to_send(answer.body);
    if (!changed) return end(std::unexpected(std::move(changed).error()));
    const auto& body = *changed;
    if (!body) return end(std::move(written_));
    request_ = is_feature_ ? client_.replace(path_, *body, then) : client_.patch(path_, *body, then);
  }
  // What to send, for the whole object or as a patch of the Node; absent if there is nothing to change.
  Result<std::optional<std::string>> to_send(const std::string& there) {
    if (is_feature_) return changed_feature(there, target_, labels_);
    TRY(auto change, change_node(there, labels_));
    written_.foreign = std::move(change.foreign);
    return std::move(change.patch);
  }
  void on_written(const kube::KubeAnswer& answer) {
    written_.changed = kube::succeeded(answer);
    if (kube::succeeded(answer)) return end(std::move(written_));
    if (answer.status == kube::http::kConflict && ++rounds_ < kMostRounds) return begin();
    Error error = kube::refusal(answer, kRefuses + ((is_feature_ ? "write " : "label ") + what_));
    if (is_feature_ && error.kind == Kind::kNotFound)
      error.what += "; the cluster has no node feature discovery: install it, or write labels elsewhere";
    end(std::unexpected(std::move(error)));
  }
  void end(Result<Written> result) {
    if (const Done done = std::exchange(done_, nullptr)) done(std::move(result));
  }

  kube::KubeClient& client_;
  const bool is_feature_;  // or the labels are the Node's
  LabelTarget target_;
  const std::string path_, what_;
  bool owners_known_ = false;
  kube::PendingRequest request_;
  Labels labels_;
  Written written_;
  Done done_;
  int rounds_ = 0;
};

}  // namespace

bool of_cluster(LabelOutput output) {
  return output == LabelOutput::kNodeFeature || output == LabelOutput::kNode;
}

std::unique_ptr<LabelWriter> label_writer(LabelOutput output, const LabelTarget& target, kube::KubeClient* client) {
  if (output == LabelOutput::kFile) return std::make_unique<File>(target.file);
  if (!of_cluster(output) || client == nullptr) return nullptr;
  return std::make_unique<ClusterWriter>(*client, output == LabelOutput::kNodeFeature, target);
}

void log_written(LabelOutput output, const Written& written, std::size_t count, bool foreign_is_known) {
  for (const auto& remark : written.remarks) log::warning("labels.remark", {{"text", remark}});
  if (!written.foreign.empty() && !foreign_is_known)
    log::warning("labels.foreign",
                 {{"keys", join(written.foreign, ",")},
                  {"what", "are on the node with different values, set by another client: left alone"}});
  if (written.changed && output != LabelOutput::kStdout)
    log::info("labels.written", {{"output", to_string(output)}, {"count", count}});
}

}  // namespace tranche::labels

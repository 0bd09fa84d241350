#include "labels/live/label_writer.h"

#include <fmt/format.h>

#include <optional>

#include "base/text.h"
#include "base/words.h"
#include "kube/api_status.h"
#include "kube/url.h"
#include "labels/node_labels.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::agent {
namespace {

constexpr int kUnprocessable = 422;
constexpr int kMostRounds = 5;
constexpr const char* kTheirTemporaryFolder = "gfd-tmp";  // left beside the file by older versions of NVIDIA's program

class Printer final : public LabelWriter {
 public:
  explicit Printer(std::function<void(const label::Labels&)> print) : print_(std::move(print)) {}
  void write(const label::Labels& labels, Done done) override {
    const bool changed = last_ != labels;
    if (changed) print_(labels);
    last_ = labels;
    done(Written{.changed = changed, .foreign = {}, .remarks = {}});
  }

 private:
  std::function<void(const label::Labels&)> print_;
  std::optional<label::Labels> last_;
};

class File final : public LabelWriter {
 public:
  explicit File(const std::string& path) {
    const auto slash = path.rfind('/');
    folder_ = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
    name_ = slash == std::string::npos ? path : path.substr(slash + 1);
  }
  void write(const label::Labels& labels, Done done) override { done(put(label::file_text(labels))); }
  void clean_up() override {
    const auto folder = host::Dir::open(folder_);
    if (!folder) return;
    (void)folder->remove(name_);
    (void)folder->remove_tree(kTheirTemporaryFolder);
  }

 private:
  Result<Written> put(const std::string& text) {
    TRY(const auto folder, host::Dir::open(folder_));
    const auto there = folder.read(name_);
    if (there && *there == text) return Written{};
    TRY_STATUS(folder.write_atomically(name_, text));
    return Written{.changed = true, .foreign = {}, .remarks = {}};
  }
  std::string folder_;
  std::string name_;
};

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

// The two writers that use the API server read, compare and write for the version that was read; one that loses a
// conflict starts again. One step after another, with at most one request in progress.
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

std::string_view to_string(LabelOutput output) {
  static constexpr Word<LabelOutput> kWords[] = {{LabelOutput::kNone, "none"},
                                                 {LabelOutput::kStdout, "stdout"},
                                                 {LabelOutput::kFile, "file"},
                                                 {LabelOutput::kNodeFeature, "nodefeature"},
                                                 {LabelOutput::kNode, "node"}};
  return word_of(kWords, output);
}

bool of_cluster(LabelOutput output) {
  return output == LabelOutput::kNodeFeature || output == LabelOutput::kNode;
}

std::unique_ptr<LabelWriter> label_printer(std::function<void(const label::Labels&)> print) {
  return std::make_unique<Printer>(std::move(print));
}

std::unique_ptr<LabelWriter> label_writer(LabelOutput output, const LabelTarget& target, host::KubeClient* client) {
  if (output == LabelOutput::kFile) return std::make_unique<File>(target.file);
  if (!of_cluster(output) || client == nullptr) return nullptr;
  if (output == LabelOutput::kNode) return std::make_unique<NodeObject>(*client, target.node_name);
  return std::make_unique<NodeFeature>(*client, label::FeaturePlace{target.node_name, target.feature_namespace, {}},
                                       target.pod_name);
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

}  // namespace tranche::agent

#include "labels/live/label_controller.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"
#include "labels/machine/features.h"
#include "labels/outputs.h"
#include "os/log/log.h"

namespace tranche::labels {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstWriteRetry = 1s;
constexpr Duration kLongestWriteRetry = 5min;
constexpr Duration kFirstRestoring = 2s;  // between two restorations, if labels are removed repeatedly
constexpr Duration kQuietAfter = 10min;   // without a removal; the next restoration is immediate

}  // namespace

LabelController::LabelController(os::Loop& loop, os::Worker& worker, LabelSettings settings,
                                 std::function<void()> on_turn)
    : loop_(loop),
      worker_(worker),
      settings_(std::move(settings)),
      on_turn_(std::move(on_turn)),
      retry_(kFirstWriteRetry, kLongestWriteRetry, stable_hash(settings_.target.node_name)),
      restoring_(kFirstRestoring, kLongestWriteRetry, stable_hash(settings_.target.node_name)) {}

void LabelController::use(kube::KubeClient* client) {
  if (client == client_) return;
  client_ = client;
  watch_node();
  arm();
}

void LabelController::watch_node() {
  if (settings_.output != LabelOutput::kNode || settings_.node_is_supplied || client_ == nullptr) return;
  watch_ = std::make_unique<kube::WatchObject>(
      loop_, *client_,
      kube::WatchedObject{"/api/v1/nodes", settings_.target.node_name, "deploy/rbac/labels.yaml",
                          stable_hash(settings_.target.node_name + " labels")},
      [this](const nlohmann::json* node) { node_is(node); },
      [this] {
        const std::string why = watch_->unknown_because().value_or("");
        if (why != unwatched_ && watch_->reflector().state() == kube::Reflector::State::kWaiting)
          log::warning(
              "labels.unwatched",
              {{"why", why}, {"effect", "labels that are removed from the node come back with the next change"}});
        unwatched_ = why;
      });
}

// Also for an object from before this program's own write: the writer then finds nothing to change.
void LabelController::node_is(const nlohmann::json* node) {
  if (settings_.output != LabelOutput::kNode || node == nullptr || writing_ || written_ != labels_) return;
  const auto change = change_node(json_text(*node), labels_);
  if (!change || !change->patch) return;
  const MonoTime now = loop_.now();
  if (restored_ && now - *restored_ > kQuietAfter) {
    restoring_.reset();
    not_before_ = {};
  }
  log::info("labels.restored", {{"why", "another client has changed or removed labels of this agent on the node"}});
  written_.reset();
  arm();
  restored_ = now;
  not_before_ = now + restoring_.next();
}

void LabelController::follow(const config::Config& config, const gpu::Inventory& inventory, const plan::Plan& plan) {
  if (config_ == config && inventory_ == inventory && plan_ == plan) return;
  const bool other_gpus = !config_ || inventory_ != inventory;
  config_ = config;
  inventory_ = inventory;
  plan_ = plan;
  const auto& flags = config.flags.gfd;
  if (settings_.target.file != flags.output_file && settings_.output == LabelOutput::kFile) {
    if (writer_) writer_->clean_up();
    writer_.reset();
    written_.reset();
  }
  settings_.target.file = flags.output_file;
  if (other_gpus || machine_type_file_ != flags.machine_type_file) read_machine(flags.machine_type_file);
  work_out();
}

void LabelController::read_machine(const std::string& machine_type_file) {
  machine_type_file_ = machine_type_file;
  worker_.run(loop_, [this, machine_type_file, root = settings_.system_root] {
    return [this, machine_type = read_machine_type(machine_type_file), vgpu = read_vgpu(root)] {
      inputs_.machine_type = machine_type;
      inputs_.vgpu = vgpu ? std::optional(*vgpu) : std::nullopt;
      machine_known_ = true;
      work_out();
      on_turn_();
    };
  });
}

void LabelController::work_out() {
  if (!config_) return;
  auto labels = labels_for(*config_, inventory_, plan_, inputs_);
  const bool changed = labels != labels_;
  labels_ = std::move(labels);
  if (changed || !timer_.running()) arm();
}

void LabelController::arm() {
  if (settings_.output == LabelOutput::kNone || !machine_known_ || writing_) return;
  if (written_ == labels_ && failing_.empty()) return;
  if (!writer_) writer_ = label_writer(settings_.output, settings_.target, client_);
  if (!writer_ || std::exchange(settling_, true)) return;
  timer_.start(std::max(settings_.settle, not_before_ - loop_.now()), [this] { write(); });
}

void LabelController::write() {
  timer_.stop();
  settling_ = false;
  if (!writer_) return arm();  // follow() has let go of it
  writing_ = true;
  writer_->write(labels_,
                 [this, labels = labels_](Result<Written> written) { on_written(labels, std::move(written)); });
}

void LabelController::on_written(const Labels& labels, Result<Written> written) {
  writing_ = false;
  if (!written) {
    const std::string why = to_string(written.error());
    if (why != failing_) log::warning("labels.not_written", {{"output", to_string(settings_.output)}, {"why", why}});
    failing_ = why;
    timer_.start(retry_.next(), [this] { write(); });
    return on_turn_();
  }
  failing_.clear();
  retry_.reset();
  log_written(settings_.output, *written, labels.size(), written->foreign == foreign_);
  foreign_ = std::move(written->foreign);
  if (written->changed) ++writes_;
  written_ = labels;
  arm();  // they may have changed meanwhile
  on_turn_();
}

LabelReport LabelController::report() const {
  LabelReport report;
  report.output = settings_.output;
  if (settings_.output == LabelOutput::kNone) return report;
  report.writes = writes_;
  report.foreign = foreign_;
  report.reason = failing_;
  if (!failing_.empty()) {
    report.state = "failing";
  } else if (written_ == labels_ && written_) {
    report.state = "written";
  } else if (!config_ || (of_cluster(settings_.output) && client_ == nullptr)) {
    report.state = "waiting";
    report.reason = !config_ ? "the driver has not reported its GPUs yet" : "there is no API server to write them to";
  } else {
    report.state = "settling";
  }
  return report;
}

}  // namespace tranche::labels

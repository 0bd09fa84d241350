#pragma once
// Keeps the node's labels written (docs/reference/labels.md). A change of configuration, inventory or plan is
// written once it has settled; without a change this class sends no request. It watches the labels on the Node object
// and restores those that another client removes or overwrites, with a growing delay if that repeats. Until the driver
// has reported the GPUs, the labels on the node stay: neither a restart nor the end of this program removes a label.
// Loop thread only.
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "kube/client/list_watch.h"
#include "labels/label.h"
#include "labels/live/label_writer.h"
#include "os/loop/loop.h"
#include "os/worker/worker.h"
#include "plan/plan.h"

namespace tranche::labels {

struct LabelSettings {
  LabelOutput output = LabelOutput::kNone;
  LabelTarget target;
  std::string system_root = "/";                     // prefix of /sys
  bool node_is_supplied = false;                     // another part watches the Node and calls node_is()
  Duration settle = std::chrono::milliseconds(500);  // from the first change to the write of all
};

class LabelController {
 public:
  // on_turn: labels() or report() may have changed; not called inside this constructor or follow().
  LabelController(os::Loop& loop, os::Worker& worker, LabelSettings settings, std::function<void()> on_turn);
  LabelController(const LabelController&) = delete;
  LabelController& operator=(const LabelController&) = delete;

  // nullptr: not reachable (yet). The client stays the same, and must outlive this object.
  void use(kube::KubeClient* client);
  void follow(const config::Config& config, const gpu::Inventory& inventory, const plan::Plan& plan);

  // The present Node object, for labels that are written on it; nullptr = there is none.
  void node_is(const nlohmann::json* node);

  const Labels& labels() const { return labels_; }  // the desired labels
  LabelReport report() const;

 private:
  void read_machine(const std::string& machine_type_file);
  void work_out();
  void arm();
  void watch_node();
  void write();
  void on_written(const Labels& labels, Result<Written> written);

  os::Loop& loop_;
  os::Worker& worker_;
  LabelSettings settings_;
  std::function<void()> on_turn_;
  kube::KubeClient* client_ = nullptr;
  std::unique_ptr<LabelWriter> writer_;

  std::optional<config::Config> config_;
  gpu::Inventory inventory_;
  plan::Plan plan_;
  Inputs inputs_;
  bool machine_known_ = false;
  std::string machine_type_file_;

  Labels labels_;
  std::optional<Labels> written_;
  bool writing_ = false;
  bool settling_ = false;
  os::Timer timer_{loop_};
  Backoff retry_;
  std::unique_ptr<kube::WatchObject> watch_;  // uses client_
  std::string unwatched_;                     // the last logged reason for not watching
  Backoff restoring_;
  std::optional<MonoTime> restored_;
  MonoTime not_before_{};
  std::string failing_;
  std::uint64_t writes_ = 0;
  std::vector<std::string> foreign_;
};

}  // namespace tranche::labels

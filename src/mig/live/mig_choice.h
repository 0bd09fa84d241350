#pragma once
// Which MIG configuration this node is to have: follows the labels of the node, and the file or ConfigMap with the
// configurations; finds the definition of the chosen name. Changes nothing on the node, and does not know what the GPUs
// have. Loop thread only; contents are parsed in the worker, and the newest one wins.
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gpu/mig/state.h"
#include "kube/client/kube_client.h"
#include "kube/client/watch_object.h"
#include "mig/configuration.h"
#include "mig/live/mig_options.h"
#include "os/files/watch.h"
#include "os/loop/timer.h"
#include "os/worker/worker.h"

namespace tranche::agent {

std::string errors_of(const std::vector<Problem>& problems);  // without the warnings; "" = none

class MigChoice {
 public:
  struct Callbacks {
    std::function<void()> changed;                              // the name, its definition, or other_manager()
    std::function<void(const std::string& why)> unreachable;    // the node is not read yet
    std::function<void(const std::string& value)> state_label;  // what nvidia.com/mig.config.state is, at every change
  };
  MigChoice(host::Loop& loop, host::Worker& worker, const MigOptions& options, std::string node_name,
            Callbacks callbacks);
  ~MigChoice() { *alive_ = false; }
  MigChoice(const MigChoice&) = delete;
  MigChoice& operator=(const MigChoice&) = delete;

  void use(host::KubeClient& client);  // once; before it nothing is known of the node

  bool known() const { return label_ && !text_pending_; }
  bool other_manager() const { return other_manager_; }  // NVIDIA's manager runs here
  std::string name() const;                              // the label's value, else the default; "" = none
  std::string source() const { return defined_ ? source_ : "defaults"; }
  // The definition of name() for these GPUs: the file's own, else one of the names that exist without a file. It lives
  // until the next call. nullptr: `why` says what is wrong, or which names there are.
  const mig::Configuration* find(const std::vector<mig::GpuState>& gpus, std::string& why);

 private:
  using Definitions = Result<std::string>;
  void take(Definitions next);
  void watch_file();
  void on_node(const nlohmann::json& node);
  void on_map(const nlohmann::json* object);

  host::Loop& loop_;
  host::Worker& worker_;
  MigOptions options_;
  std::string node_name_;
  Callbacks callbacks_;

  std::unique_ptr<host::WatchObject> node_watch_, map_watch_;
  std::unique_ptr<host::DirWatch> dir_watch_;
  host::Timer settle_{loop_};
  std::optional<std::string> label_;  // absent: not known yet
  bool other_manager_ = false;
  std::string source_;  // of the definitions
  std::optional<Definitions> newest_;
  bool defined_ = false;  // file_ is the content of the source
  std::string text_problem_;
  bool text_pending_ = false;  // not read yet
  mig::ParsedFile file_, defaults_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // jobs of the worker may finish after this object
};

}  // namespace tranche::agent

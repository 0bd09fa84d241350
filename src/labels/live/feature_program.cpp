#include "labels/live/feature_program.h"

#include <fmt/format.h>

#include <array>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "base/result.h"
#include "base/text.h"
#include "base/time.h"
#include "config/document/amounts.h"
#include "config/live/config_source.h"
#include "gpu/driver/nvml.h"
#include "gpu/inventory/inventory.h"
#include "kube/client/find_access.h"
#include "kube/object.h"
#include "labels/label.h"
#include "labels/live/label_writer.h"
#include "labels/machine/features.h"
#include "os/log/log.h"
#include "os/loop/loop.h"
#include "plan/plan.h"
#include "plan/select.h"
#include "probe/cuda_library.h"

namespace tranche::labels {
namespace {

Result<gpu::Gpu> gpu_at(const probe::CudaLibrary& cuda, int index) {
  const auto& f = cuda.functions();
  const std::string which = "CUDA device " + std::to_string(index);
  probe::CudaDevice device = 0;
  std::array<char, 128> name{};
  std::size_t memory = 0;
  gpu::Gpu gpu;
  int code = f.device_get(&device, index);
  if (code == 0) code = f.device_name(name.data(), static_cast<int>(name.size()) - 1, device);
  if (code == 0) code = f.device_memory(&memory, device);
  if (code == 0) code = f.device_attribute(&gpu.compute_capability.major, probe::kAttributeCapabilityMajor, device);
  if (code == 0) code = f.device_attribute(&gpu.compute_capability.minor, probe::kAttributeCapabilityMinor, device);
  if (code != 0) return std::unexpected(cuda.error(code, "cannot be read", which));
  gpu.uuid = which;
  gpu.index = static_cast<std::uint32_t>(index);
  gpu.name = name.data();
  gpu.memory = {memory};
  gpu.pci_class = 0;  // not on a PCI bus
  return gpu;
}

// A Tegra system's GPUs as the CUDA driver reports them, because there is no management library. Opens that driver in
// this process permanently. For labels only: the GPUs have no UUID that the driver knows, and its version is unknown.
Result<gpu::Inventory> read_tegra() {
  TRY(const auto cuda, probe::CudaLibrary::open());
  const auto& f = cuda->functions();
  gpu::Inventory node;
  node.platform = gpu::Platform::kTegra;
  node.driver_version = kUnknownDriver;
  int count = 0;
  int code = f.init(0);
  if (code == 0) code = f.device_count(&count);
  if (code != 0) return std::unexpected(cuda->error(code, "cannot be started", "CUDA"));
  if (f.driver_version != nullptr) (void)f.driver_version(&node.cuda_driver_version);
  for (int index = 0; index < count; ++index) {
    TRY(auto gpu, gpu_at(*cuda, index));
    node.gpus.push_back(std::move(gpu));
  }
  return node;
}

using namespace std::chrono_literals;

constexpr Duration kLookForDriver = 60s;  // with an infinite interval, while there is no driver
constexpr Duration kFirstRetry = 1s;
constexpr Duration kMostRetry = 60s;
// How often unchanged labels are compared with the API server's: another client may have deleted them.
constexpr Duration kCompareEvery = 10min;

LabelOutput output_of(const config::Flags& flags) {
  if (flags.use_node_feature_api) return LabelOutput::kNodeFeature;
  return flags.gfd.output_file.empty() ? LabelOutput::kStdout : LabelOutput::kFile;
}

bool needs_a_person(const Error& error) {
  if (error.code == kube::http::kUnauthorized) return false;  // a token that is being replaced
  return error.kind == Kind::kDenied || error.kind == Kind::kNotFound || error.kind == Kind::kInvalid;
}

class FeatureProgram {
 public:
  FeatureProgram(const FeatureOptions& options, os::Loop& loop)
      : options_(options), retry_(kFirstRetry, kMostRetry, stable_hash(options.target.node_name)), loop_(loop) {}

  // The exit status; an Error: it cannot start.
  Result<int> run() {
    if (!read_config()) return 2;
    TRY_STATUS(loop_.on_signals({SIGTERM, SIGINT, SIGQUIT, SIGHUP}, [this](int number) {
      if (number != SIGHUP) return end(0);
      log::info("config.reload", {{"because", "SIGHUP"}});
      loaded_at_ = loop_.wall_now();
      if (writer_) written_.reset();
      again_ = driver_.runs();  // or after the current round
      if (!again_) round();
    }));
    TRY_STATUS(open());
    loop_.post([this] { round(); });
    loop_.run();
    driver_.stop();
    const bool keeps_running = !once() && config_.config.flags.gfd.sleep_interval != config::kInfinite;
    if (exit_code_ == 0 && keeps_running && writer_) writer_->clean_up();
    return exit_code_;
  }

 private:
  bool once() const { return options_.once || options_.remove || config_.config.flags.gfd.oneshot; }

  // false: there is no usable configuration
  bool read_config() {
    config::ConfigView next = config::load_config(options_, config::Program::kFeatureDiscovery);
    if (loaded_at_ && next == config_) return true;
    for (const auto& problem : next.problems)
      if (next.problems != config_.problems) fmt::print(stderr, "{}\n", to_string(problem));
    if (has_error(next.problems)) {
      config_.problems = next.problems;
      return loaded_at_.has_value();  // the previous configuration stays
    }
    config_ = std::move(next);
    loaded_at_ = loop_.wall_now();
    return true;
  }

  Status open_cluster() {
    if (options_.target.node_name.empty())
      return fail(Kind::kInvalid, "the name of this node is not known; give --node-name or $NODE_NAME");
    if (output_ == LabelOutput::kNodeFeature && options_.target.feature_namespace.empty())
      return fail(Kind::kInvalid, "no namespace for the NodeFeature object; give --namespace or $NAMESPACE");
    std::vector<Problem> problems;
    TRY(const auto access, kube::find_access(options_.kubeconfig, options_.environment, problems));
    for (const auto& problem : problems) log::warning("kube.problem", {{"text", to_string(problem)}});
    TRY(client_, kube::KubeClient::open(loop_, access));
    return {};
  }

  // Runs again if the configuration names another output.
  Status open() {
    output_ = options_.output.value_or(output_of(config_.config.flags));
    if (of_cluster(output_) && !client_) TRY_STATUS(open_cluster());
    options_.target.file = config_.config.flags.gfd.output_file;
    writer_ = label_writer(output_, options_.target, client_.get());
    written_.reset();
    return {};
  }

  void end(int code) {
    ending_ = true;
    exit_code_ = code;
    loop_.stop();
  }

  void round() {
    timer_.stop();
    if (options_.remove && of_cluster(output_)) return write({});
    if (options_.remove) {
      if (writer_) writer_->clean_up();
      return end(0);
    }
    const config::ConfigView before = config_;
    (void)read_config();
    const auto& flags = config_.config.flags;
    const auto& former = before.config.flags;
    if (flags.gfd.output_file != former.gfd.output_file || output_of(flags) != output_of(former)) {
      if (writer_) writer_->clean_up();
      if (const auto opened = open(); !opened) {
        log::error("labels.no_output", {{"why", opened.error()}});
        return end(1);
      }
    }
    if (flags.device_discovery_strategy == config::DiscoveryStrategy::kVfio)
      return take(find_passed_through(options_.system_root));
    auto settings = gpu::driver_settings(flags, "", options_.system_root);
    settings.fault_events = false;
    driver_.start(settings);
  }

  void take(Result<gpu::Inventory> found) {
    if (ending_) return;
    if (found && found->platform == gpu::Platform::kTegra)
      if (auto tegra = read_tegra(); tegra || found->gpus.empty()) found = std::move(tegra);
    if (found) {
      inventory_ = plan::keep_gpus(config_.config.devices, *found);
      logged_.clear();
      return publish();
    }
    const std::string why = to_string(found.error());
    if (!inventory_ && config_.config.flags.fail_on_init_error) {
      log::error("labels.no_driver", {{"why", why}});
      return end(1);
    }
    // Existing labels stay: removing a label because of one failed round can cost pods that select by it.
    if (why != logged_) log::warning("labels.no_driver", {{"why", why}, {"labels", inventory_ ? "stay" : "few"}});
    logged_ = why;
    publish();
  }

  Labels labels() const {
    const auto& config = config_.config;
    const gpu::Inventory inventory = inventory_.value_or(gpu::Inventory{});
    Inputs inputs;
    inputs.machine_type = read_machine_type(config.flags.gfd.machine_type_file);
    inputs.loaded_at = loaded_at_;
    if (auto vgpu = read_vgpu(options_.system_root)) {
      inputs.vgpu = *std::move(vgpu);
    } else {
      log::debug("labels.no_vgpu", {{"why", vgpu.error()}});
    }
    // A node that does not fit the strategy has no plan; its labels show that.
    return labels_for(config, inventory, plan::make_plan(config, inventory).value_or(plan::Plan{}), inputs);
  }

  void publish() {
    const Labels now = labels();
    const bool lately = loop_.now() - compared_ < kCompareEvery;
    if (of_cluster(output_) && written_ == now && lately) return rest();
    write(now);
  }

  void write(const Labels& labels) {
    if (!writer_) {
      if (written_ != labels) print(labels);
      return on_written(labels, Written{});
    }
    writer_->write(labels, [this, labels](Result<Written> written) { on_written(labels, std::move(written)); });
  }

  void on_written(const Labels& labels, Result<Written> written) {
    if (ending_) return;
    if (!written) {
      log::error("labels.not_written", {{"output", to_string(output_)}, {"why", written.error()}});
      // Temporary errors are retried; others end the program, as they end NVIDIA's, so that an operator sees them.
      if (once() || !of_cluster(output_) || needs_a_person(written.error())) return end(1);
      timer_.start(retry_.next(), [this] { round(); });
      return;
    }
    retry_.reset();
    log_written(output_, *written, labels.size());
    written_ = labels;
    compared_ = loop_.now();
    if (once()) return end(0);
    rest();
  }

  void rest() {
    const Duration interval = std::exchange(again_, false) ? 0s : config_.config.flags.gfd.sleep_interval;
    if (interval == config::kInfinite && inventory_) return;
    timer_.start(interval == config::kInfinite ? kLookForDriver : interval, [this] { round(); });
  }

  void print(const Labels& labels) const {
    if (!options_.json) {
      fmt::print("{}", file_text(labels));
    } else {
      const auto notes = notes_for(inventory_.value_or(gpu::Inventory{}));
      fmt::print("{}\n", json_text(nlohmann::ordered_json{{"labels", labels}, {"notes", notes}}, 2));
    }
    std::fflush(stdout);
  }

  FeatureOptions options_;
  config::ConfigView config_;
  LabelOutput output_ = LabelOutput::kNone;
  std::optional<WallTime> loaded_at_;
  std::optional<gpu::Inventory> inventory_;  // of the last round with one
  std::optional<Labels> written_;            // or printed
  MonoTime compared_{};
  std::string logged_;  // the last logged problem, to log it once
  Backoff retry_;
  int exit_code_ = 0;
  bool ending_ = false;
  bool again_ = false;

  os::Loop& loop_;
  std::unique_ptr<kube::KubeClient> client_;
  std::unique_ptr<LabelWriter> writer_;  // null: they are printed
  // One answer is enough; the next round asks again. A thread of its own, so that a hung driver does not block the
  // exit.
  gpu::NvmlThread driver_{loop_, {.on_inventory = [this](const auto& scanned) {
                            loop_.post([this, scanned] {
                              if (!driver_.runs()) return;
                              driver_.stop();
                              take(scanned);
                            });
                          }}};
  os::Timer timer_{loop_};
};

}  // namespace

int run_feature_discovery(const FeatureOptions& options) {
  const auto loop = os::Loop::open();
  const auto ran = loop ? FeatureProgram(options, **loop).run() : std::unexpected(loop.error());
  if (!ran) log::error("start.failed", {{"why", ran.error()}});
  return ran.value_or(1);
}

}  // namespace tranche::labels

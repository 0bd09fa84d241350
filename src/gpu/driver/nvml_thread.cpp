#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <thread>

#include "gpu/driver/channel.h"
#include "gpu/driver/nvml.h"
#include "gpu/driver/session.h"
#include "os/log/log.h"
#include "os/loop/loop.h"

namespace tranche::gpu {
namespace {

class DriverThread final : public NvmlThread {
 public:
  DriverThread(os::Loop& loop, NvmlSettings settings, Callbacks callbacks)
      : loop_(loop),
        patience_(settings.patience),
        silence_(settings.silence),
        on_event_(callbacks.on_event),
        channel_(std::make_shared<nvml::Channel>(loop, std::move(callbacks),
                                                 os::Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)))) {
    listen();
    // Signals belong to the loop's thread: this thread starts with all of them blocked.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([channel = channel_, settings = std::move(settings)] {
      ::pthread_setname_np(::pthread_self(), "nvml");
      nvml::Session(channel, settings).run();
      channel->finished();
    });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~DriverThread() override {
    timer_.stop();
    if (channel_->close(patience_)) {
      thread_.join();
      return;
    }
    log::warning("nvml.stuck",
                 {{"what", "a call into the NVIDIA driver has not returned; its thread is left behind"},
                  {"waited_ms", std::chrono::duration_cast<std::chrono::milliseconds>(patience_).count()}});
    thread_.detach();  // it owns everything that it may still use (Channel, Session), and ends with the process
  }

  void rescan() override {
    channel_->request([](nvml::Requests& requests) { requests.rescan = true; });
  }
  void ask_use() override { channel_->ask_use(); }
  void measure() override {
    channel_->request([](nvml::Requests& requests) { requests.measure = true; });
  }
  void sample(std::vector<SampleWish> gpus) override {
    channel_->request([&](nvml::Requests& requests) { requests.sample = std::move(gpus); });
  }
  MonoTime last_sample(const std::string& gpu_uuid) const override { return channel_->last_sample(gpu_uuid); }
  MonoTime last_sample() const override { return channel_->last_sample(); }
  void set_compute_mode(std::string gpu_uuid, inventory::ComputeMode mode, std::function<void(Status)> done) override {
    channel_->request(
        [&](nvml::Requests& requests) { requests.modes.push_back({std::move(gpu_uuid), mode, std::move(done)}); });
  }

 private:
  // A hung call raises no event, so the loop checks for it.
  void listen() {
    timer_.start(silence_ / 2, [this] {
      listen();
      const auto at_work = channel_->at_work(loop_.now());
      const bool silent = at_work && *at_work >= silence_;
      if (silent == silent_) return;
      silent_ = silent;
      if (!on_event_) return;
      if (silent) {
        on_event_({.what = GpuEvent::What::kSilent,
                   .why = "a call into the driver has not returned for " +
                          std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(*at_work).count()) +
                          " ms; see dmesg for Xid or GSP messages"});
      } else {
        on_event_({.what = GpuEvent::What::kAnswering});
      }
    });
  }

  os::Loop& loop_;
  Duration patience_;
  Duration silence_;
  std::function<void(const GpuEvent&)> on_event_;
  os::Timer timer_{loop_};
  bool silent_ = false;
  std::shared_ptr<nvml::Channel> channel_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<NvmlThread> NvmlThread::start(os::Loop& loop, NvmlSettings settings, Callbacks callbacks) {
  return std::make_unique<DriverThread>(loop, std::move(settings), std::move(callbacks));
}

}  // namespace tranche::gpu

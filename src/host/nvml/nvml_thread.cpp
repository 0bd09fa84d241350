#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <thread>

#include "host/log/log.h"
#include "host/nvml/channel.h"
#include "host/nvml/nvml.h"
#include "host/nvml/session.h"

namespace tranche::host {
namespace {

class DriverThread final : public NvmlThread {
 public:
  DriverThread(Loop& loop, NvmlSettings settings, Callbacks callbacks)
      : patience_(settings.patience),
        channel_(
            std::make_shared<nvml::Channel>(loop, std::move(callbacks), Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)))) {
    // Signals belong to the loop: the thread starts with all of them blocked.
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
    if (channel_->close(patience_)) {
      thread_.join();
      return;
    }
    log::warning("nvml.stuck",
                 {{"what", "a call into the NVIDIA driver has not returned; its thread is left behind"},
                  {"waited_ms", std::chrono::duration_cast<std::chrono::milliseconds>(patience_).count()}});
    thread_.detach();  // it owns everything that it may still touch (Channel, Session), and ends with the process
  }

  void rescan() override {
    channel_->request([](nvml::Requests& requests) { requests.rescan = true; });
  }
  void ask_use() override { channel_->ask_use(); }
  void set_compute_mode(std::string gpu_uuid, inventory::ComputeMode mode, std::function<void(Status)> done) override {
    channel_->request(
        [&](nvml::Requests& requests) { requests.modes.push_back({std::move(gpu_uuid), mode, std::move(done)}); });
  }

 private:
  Duration patience_;
  std::shared_ptr<nvml::Channel> channel_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<NvmlThread> NvmlThread::start(Loop& loop, NvmlSettings settings, Callbacks callbacks) {
  return std::make_unique<DriverThread>(loop, std::move(settings), std::move(callbacks));
}

}  // namespace tranche::host

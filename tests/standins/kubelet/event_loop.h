#pragma once
// sim-kubelet's own small loop: descriptors, timers and posted work, all on the thread that calls run(). A stand-in
// shares no code with the product, so that both cannot have the same misunderstanding.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"

namespace tranche::sim {

class EventLoop {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Work = std::function<void()>;

  static Result<std::unique_ptr<EventLoop>> open();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void watch(int fd, Work on_readable);  // readable, closed or failed; the owner closes fd, after forget()
  void forget(int fd);
  std::uint64_t at(Time when, Work work);
  void cancel(std::uint64_t timer);
  void post(Work work);             // from any thread
  void after_each_turn(Work work);  // once per wake-up, after everything else
  void run();                       // until quit()
  void quit() { quitting_ = true; }

 private:
  EventLoop(int epoll, int wake) : epoll_(epoll), wake_(wake) {}
  int milliseconds_to_next_timer() const;
  void run_due_timers();
  void run_posted();

  int epoll_;
  int wake_;
  bool quitting_ = false;
  std::uint64_t next_timer_ = 0;
  std::map<int, Work> watched_;
  std::map<std::pair<Time, std::uint64_t>, Work> timers_;
  Work each_turn_;
  std::mutex mutex_;
  std::vector<Work> posted_;
};

}  // namespace tranche::sim

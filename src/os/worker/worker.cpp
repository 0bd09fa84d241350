#include "os/worker/worker.h"

#include <system_error>

namespace tranche::os {

Worker::Worker(std::shared_ptr<Loop> loop) : loop_(std::move(loop)), thread_([loop = loop_] { loop->run(); }) {}

Worker::~Worker() {
  loop_->stop();
  if (left_behind_)
    thread_.detach();  // it owns its loop, and what its job uses
  else
    thread_.join();
}

std::unique_ptr<Worker> Worker::start() {
  auto loop = Loop::open();
  CHECK_THAT(loop, "a worker has an event loop");
  return std::unique_ptr<Worker>(new Worker(*std::move(loop)));
}

std::unique_ptr<Worker> Worker::try_start() {
  auto loop = Loop::open();
  try {
    return loop ? std::unique_ptr<Worker>(new Worker(*std::move(loop))) : nullptr;
  } catch (const std::system_error&) {
    return nullptr;
  }
}

}  // namespace tranche::os

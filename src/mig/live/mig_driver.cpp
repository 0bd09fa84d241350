#include "mig/live/mig_driver.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "os/log/log.h"

namespace tranche::mig {
using namespace std::chrono_literals;

namespace {

constexpr Duration kEndPatience = 2s;  // for the call in progress, when the program ends

MigDriver::Done failed(const MigDriver::Work& work, std::string why) {
  return {work, {.what = MigOutcome::What::kFailed, .why = std::move(why)}, {}};
}

}  // namespace

struct MigDriver::Job {
  std::mutex mutex;
  std::condition_variable changed;
  bool stop = false;      // between two calls
  bool finished = false;  // the thread has left
  std::uint64_t steps = 0;
  std::optional<std::uint32_t> index;  // of the GPU that is worked on
  std::string doing = "open the driver library";
  Reading reading;  // of the thread, until it has finished
  std::vector<Done> done;

  bool pause(Duration duration) {  // false: stop
    std::unique_lock lock(mutex);
    return !changed.wait_for(lock, duration, [this] { return stop; });
  }
  void request_stop() {
    const std::lock_guard lock(mutex);
    stop = true;
    changed.notify_all();
  }
  void begins(std::optional<std::uint32_t> gpu, std::string what) {
    const std::lock_guard lock(mutex);
    ++steps;
    index = gpu;
    doing = std::move(what);
  }

  void read(const gpu::NvmlSettings& driver, std::set<std::uint32_t> pass_over) {
    gpu::MigCare care{std::move(pass_over), [this](std::uint32_t gpu) { begins(gpu, "read its MIG state"); }};
    if (auto admin = gpu::MigAdmin::open(driver, std::move(care))) {
      begins({}, "count the GPUs");
      auto gpus = (*admin)->read(reading.silent);
      begins({}, "close the driver library");
      if (gpus)
        reading.gpus = *std::move(gpus);
      else
        reading.problem = to_string(gpus.error());
    } else {
      reading.problem = to_string(admin.error());
    }
  }

  void apply(const std::vector<Work>& all, const gpu::NvmlSettings& driver, const std::set<std::uint32_t>& pass_over,
             const std::shared_ptr<UseBox>& use) {
    auto admin = gpu::MigAdmin::open(driver, {pass_over, {}});
    for (const Work& work : all) {
      Done one{work, {}, {}};
      if (!admin) {
        one = failed(work, to_string(admin.error()));
      } else if (work.partition && pass_over.contains(work.target.index)) {
        one = failed(work, "a driver call on the GPU has not returned");  // and not: the GPU is gone
      } else {
        begins(work.target.index, "read its MIG state");
        if (work.partition)
          one.partition =
              change_partition(**admin, work.target.uuid, *work.partition, callbacks(work.target.index, use));
        else
          one.outcome = apply_layout(**admin, work.target, callbacks(work.target.index, use));
      }
      const std::lock_guard lock(mutex);
      done.push_back(std::move(one));
    }
  }

  MigCallbacks callbacks(unsigned gpu_index, const std::shared_ptr<UseBox>& use) {
    MigCallbacks callbacks;
    callbacks.pause = [this](Duration duration) { return pause(duration); };
    callbacks.on_step = [this, gpu_index](const Step& step) { begins(gpu_index, to_string(step)); };
    callbacks.users = [use](const std::string& uuid) { return holders_in(*use->get(), uuid); };
    return callbacks;
  }
};

MigDriver::MigDriver(os::Loop& loop, std::function<void()> answers_again)
    : loop_(loop), answers_again_(std::move(answers_again)), worker_(os::Worker::start()) {}

MigDriver::~MigDriver() {
  for (const Stuck& one : stuck_) one.worker->leave_behind();
  if (!job_) return;
  job_->request_stop();
  std::unique_lock lock(job_->mutex);
  if (job_->changed.wait_for(lock, kEndPatience, [this] { return job_->finished; })) return;
  log::warning("mig.stuck", {{"doing", job_->doing}});
  worker_->leave_behind();
}

void MigDriver::use_is(const MigUse& use) {
  use_->put(std::make_shared<const MigUse>(use));
}

void MigDriver::read(const gpu::NvmlSettings& driver, std::function<void(Reading)> done) {
  add({driver, {}, [done = std::move(done)](Reading reading, const auto&) { done(std::move(reading)); }});
}

void MigDriver::apply(const gpu::NvmlSettings& driver, std::vector<Work> work,
                      std::function<void(std::vector<Done>)> done) {
  add({driver, std::move(work),
       [done = std::move(done)](const Reading&, std::vector<Done> all) { done(std::move(all)); }});
}

void MigDriver::add(Request request) {
  requests_.push_back(std::move(request));
  if (requests_.size() == 1) start();
}

void MigDriver::start() {
  std::set<std::uint32_t> pass_over;
  for (const Stuck& one : stuck_) {
    if (one.index) {
      pass_over.insert(*one.index);
      continue;
    }
    timer_.start({}, [this, why = one.why] { answer(nullptr, why); });  // no second thread goes where one is stuck
    return;
  }
  job_ = std::make_shared<Job>();
  const Request& request = requests_.front();
  worker_->run(loop_, [this, job = job_, use = use_, driver = request.driver, work = request.work, pass_over,
                       reads = request.work.empty() && request.finished.empty()] {
    if (reads)
      job->read(driver, pass_over);
    else
      job->apply(work, driver, pass_over, use);
    const std::lock_guard lock(job->mutex);
    job->finished = true;
    job->changed.notify_all();
    return [this, job] { on_finished(job.get()); };
  });
  watch(0);
}

void MigDriver::watch(std::uint64_t seen) {
  timer_.start(requests_.front().driver.silence, [this, seen] {
    std::uint64_t now = 0;
    {
      const std::lock_guard lock(job_->mutex);
      if (job_->finished) return;  // on_finished() comes
      now = job_->steps;
    }
    if (now == seen) return give_up();
    watch(now);
  });
}

void MigDriver::give_up() {
  Request& request = requests_.front();
  Stuck stuck;
  {
    const std::lock_guard lock(job_->mutex);
    stuck.index = job_->index;
    stuck.why = "a driver call has not returned for " + std::to_string(milliseconds_of(request.driver.silence)) +
                " ms (to " + job_->doing + "); see dmesg for Xid or GSP messages";
    if (stuck.index) stuck.why = "GPU " + std::to_string(*stuck.index) + ": " + stuck.why;
    for (Done& done : job_->done) request.finished.push_back(std::move(done));
    job_->done.clear();
  }
  job_->request_stop();  // should the call return, nothing more is done
  log::error("mig.stuck", {{"why", stuck.why}});
  stuck.worker = std::exchange(worker_, os::Worker::start());
  stuck.job = std::exchange(job_, nullptr);
  std::erase_if(request.work, [&](const Work& work) {
    const bool here = stuck.index == work.target.index;
    if (here) request.finished.push_back(failed(work, stuck.why));
    return here || std::ranges::any_of(request.finished,
                                       [&](const Done& done) { return done.work.target.uuid == work.target.uuid; });
  });
  stuck_.push_back(std::move(stuck));
  start();
}

void MigDriver::on_finished(const Job* job) {
  if (job == job_.get()) {
    timer_.stop();
    return answer(std::exchange(job_, nullptr).get(), "");
  }
  const auto returned = std::ranges::find(stuck_, job, [](const Stuck& one) { return one.job.get(); });
  if (returned == stuck_.end()) return;
  log::info("mig.answers_again", {{"was", returned->why}});
  stuck_.erase(returned);
  answers_again_();
}

// job: nullptr where the driver as a whole hangs, and why.
void MigDriver::answer(const Job* job, const std::string& why) {
  Request request = std::move(requests_.front());
  requests_.pop_front();
  if (!requests_.empty()) start();
  Reading reading{.problem = why};
  if (job != nullptr) {
    reading = job->reading;
    request.finished.insert(request.finished.end(), job->done.begin(), job->done.end());
  } else {
    for (const Work& work : request.work) request.finished.push_back(failed(work, why));
  }
  for (const Stuck& one : stuck_)
    if (one.index) reading.silent.push_back(one.why);
  request.done(std::move(reading), std::move(request.finished));
}

std::vector<Holder> holders_in(const MigUse& use, const std::string& uuid) {
  if (!use.unknown.empty())
    return {{"a holder that is not known, because kubelet does not answer (" + use.unknown + ")"}};
  const auto found = use.users.find(uuid);
  return found == use.users.end() ? std::vector<Holder>() : found->second;
}

}  // namespace tranche::mig

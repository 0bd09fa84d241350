#include "node/dra/claims.h"

#include <fmt/format.h>

#include <algorithm>

#include "cdi/live/write_specs.h"
#include "dra/claim_spec.h"
#include "dra/claim_status.h"
#include "dra/prepare.h"
#include "kube/object.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::node {
namespace {

constexpr const char* kFile = "claims.txt";
constexpr std::size_t kLargestFile = 16 << 20;
constexpr Duration kReopenAfter = std::chrono::seconds(5);
constexpr Duration kRoomPatience = std::chrono::seconds(20);  // until a different claim ends; kubelet waits 45 s

// Why the API server does not give the claim.
Error refusal(const kube::KubeAnswer& answer, const dra::ClaimName& claim) {
  const std::string where = dra::claim_path(claim);
  if (answer.status == kube::http::kNotFound)
    return {Kind::kNotFound, "the claim is not in the API server any more; delete the pod that waits for it", where, 0};
  auto error = kube::refusal(answer, "the API server does not show the claim", where);
  error.what += error.kind == Kind::kDenied ? "; give this pod's service account the verb get on resourceclaims of the "
                                              "group resource.k8s.io"
                                            : "; kubelet asks again";
  return error;
}

Error with_newer_agent() {
  return {Kind::kUnavailable, "a newer agent of this node serves claims; kubelet asks again", {}, 0};
}

// Of an endpoint: on each of its GPUs.
mps::GrantLimits limits_of(const dra::PreparedClaim& claim, const std::string& grant) {
  mps::GrantLimits limits;
  for (const auto& part : claim.parts)
    if (part.grant == grant) limits.push_back({part.gpu_uuid, part.limits.memory, part.limits.threads});
  return limits;
}

// Several parts can have one endpoint.
bool is_first_of_its_endpoint(const dra::PreparedClaim& claim, const dra::Part& part) {
  return !part.grant.empty() && &*std::ranges::find(claim.parts, part.grant, &dra::Part::grant) == &part;
}

}  // namespace

Claims::Claims(os::Loop& loop, kube::KubeLink& link, mps::MpsClient& mps, mig::MigPartitions& mig, std::string run_dir,
               std::string cdi_root, Callbacks callbacks)
    : loop_(loop),
      link_(link),
      run_dir_(std::move(run_dir)),
      cdi_root_(std::move(cdi_root)),
      boot_(os::boot_id()),
      callbacks_(std::move(callbacks)),
      mps_(mps),
      mig_(mig) {
  const auto dir = os::Dir::open(run_dir_);
  const auto text = dir ? dir->read(kFile, kLargestFile) : Result<std::string>(std::unexpected(dir.error()));
  if (text) prepared_ = dra::parse_prepared(*text).claims;
}

void Claims::take() {
  standing_ = ClaimsStanding::kOurs;
  load();
  restore_specs();
  std::vector<std::string> waiting;
  for (const auto& [uid, jobs] : jobs_) waiting.push_back(uid);
  for (const auto& uid : waiting) run_first(uid);
  on_pools(mps::PoolReports(pools_));
}

void Claims::load() {
  prepared_.clear();
  lines_.clear();
  opened_.clear();
  not_reopened_.clear();
  if (const auto specs = os::Dir::open(cdi_root_))
    os::remove_temporaries(*specs, [](std::string_view name) { return dra::is_claim_spec_file(name); });
  const auto dir = os::Dir::open(run_dir_);
  if (!dir) return;  // the first write reports why
  os::remove_temporaries(*dir, [](std::string_view name) { return name == kFile; });
  auto file = os::read_kept(*dir, kFile, kLargestFile);
  auto read = dra::parse_prepared(file.text.value_or(""));
  if (!file.lost.empty()) read.lost.push_back(file.lost);
  for (const auto& what : read.lost)
    log::error("claims.lost", {{"what", what},
                               {"file", run_dir_ + "/" + kFile},
                               {"effect", "the claim is looked for in the CDI root, by its specification"}});
  prepared_ = read.claims;
  find_lost();
  forget_former_boots();
  if (const auto written = prepared_ == read.claims ? Status() : write(); !written)
    log::warning("claims.not_written", {{"why", written.error()}, {"effect", "the next change writes them"}});
  if (!prepared_.empty()) log::info("claims.restored", {{"claims", prepared_.size()}});
}

void Claims::give_up(std::function<void()> done) {
  standing_ = ClaimsStanding::kGivenUp;
  given_up_ = std::move(done);
  reopen_timer_.stop();
  try_again();  // those that wait for room do not wait any longer
  if (jobs_.empty()) end_of_jobs();
}

void Claims::end_of_jobs() {
  if (!given_up_) return;
  specs_watch_.reset();
  loop_.after({}, [this] {
    if (given_up_ && jobs_.empty()) std::exchange(given_up_, nullptr)();
  });
}

// kubelet does not prepare the claim of a running pod again, so this file is the only other record that it is held.
void Claims::find_lost() {
  for (const auto& file : os::names_in(cdi_root_)) {
    if (!dra::is_claim_spec_file(file)) continue;
    const auto text = os::read_file(cdi_root_ + "/" + file);
    if (!text) continue;
    auto read = dra::read_claim_spec(file, *text);
    if (!read || !read->claim || prepared_.contains(read->claim->name.uid)) continue;
    log::warning("claim.found", {{"claim", dra::to_string(read->claim->name)},
                                 {"why", "its record is lost"},
                                 {"file", cdi_root_ + "/" + file}});
    const std::string uid = read->claim->name.uid;
    prepared_[uid] = *std::move(read->claim);
  }
}

// No container outlives a reboot. kubelet prepares the claims of those that start again; one that it does not prepare,
// because its pod was deleted and kubelet's own record is lost, would hold its part of a GPU for good.
void Claims::forget_former_boots() {
  const auto forgotten = std::erase_if(prepared_, [this](const auto& each) {
    const auto& [uid, claim] = each;
    if (claim.boot.empty() || claim.boot == boot_) return false;
    const auto removed = cdi::remove_spec(cdi_root_, dra::claim_spec_file(claim.driver, uid));
    if (!removed) log::warning("cdi.not_removed", {{"claim", uid}, {"why", removed.error()}});
    return true;
  });
  if (forgotten > 0) log::info("claims.forgotten", {{"claims", forgotten}, {"why", "the node has rebooted"}});
}

void Claims::follow(ClaimInputs inputs) {
  const bool first = !std::exchange(inputs_known_, true);
  inputs_ = std::move(inputs);
  if (first) restore_specs();
  try_again();
}

// --- one thing at a time for each claim ----------------------------------------------------------------------------

void Claims::enqueue(const std::string& uid, Job job) {
  auto& jobs = jobs_[uid];
  jobs.push_back(std::move(job));
  if (jobs.size() == 1 && standing_ != ClaimsStanding::kWaiting) run_first(uid);
}

void Claims::run_first(const std::string& uid) {
  const auto found = jobs_.find(uid);
  if (found == jobs_.end()) return;
  const Job first = found->second.front();  // it may end before it returns, and its place with it
  first();
}

void Claims::next(const std::string& uid) {
  const auto found = jobs_.find(uid);
  if (found == jobs_.end()) return;
  found->second.pop_front();
  if (found->second.empty()) {
    jobs_.erase(found);
    if (jobs_.empty()) end_of_jobs();
    return;
  }
  // As a callback of its own: jobs that end at once would call each other as deep as the queue is long.
  loop_.after({}, [this, uid] { run_first(uid); });
}

// --- prepare -------------------------------------------------------------------------------------------------------

void Claims::prepare(const dra::ClaimName& claim, Prepared done) {
  if (standing_ == ClaimsStanding::kGivenUp) return done(std::unexpected(with_newer_agent()));
  enqueue(claim.uid, [this, claim, done = std::move(done)] {
    const Prepared answer = [this, claim, done](Result<std::vector<kubelet::DraDevice>> devices) {
      if (!devices) log::warning("claim.not_prepared", {{"claim", dra::to_string(claim)}, {"why", devices.error()}});
      done(std::move(devices));
      next(claim.uid);
    };
    if (prepared_.contains(claim.uid)) return make(claim.uid, false, answer);
    read(claim, answer);
  });
}

void Claims::read(const dra::ClaimName& claim, Prepared done) {
  if (!inputs_known_)
    return done(fail(Kind::kUnavailable, "the GPUs of this node are not known yet; kubelet asks again"));
  auto* api = link_.client();
  if (api == nullptr)
    return done(
        fail(Kind::kUnavailable,
             fmt::format("the claim cannot be read because the API server cannot be reached: {}; kubelet asks again",
                         link_.settled() ? link_.closed_because() : "the node agent is looking for it")));
  asked_[claim.uid] = api->get(dra::claim_path(claim), [this, claim, done = std::move(done)](const auto& answer) {
    asked_.erase(claim.uid);
    if (answer.status != kube::http::kOk || !answer.why.empty()) return done(std::unexpected(refusal(answer, claim)));
    const auto read = dra::read_claim(answer.body, claim, inputs_.offered.driver);
    if (!read) return done(std::unexpected(read.error()));
    decide(*read, done);
  });
}

void Claims::decide(const dra::Claim& claim, const Prepared& done) {
  wait(claim.name.uid, kRoomPatience, [this, claim, done, waits = false](bool last) mutable {
    auto decided = dra::prepare(claim, inputs_.offered, prepared_);
    if (!decided && decided.error().kind == Kind::kConflict && !last && standing_ == ClaimsStanding::kOurs) {
      if (!std::exchange(waits, true))
        log::info("claim.waits", {{"claim", dra::to_string(claim.name)}, {"why", decided.error()}});
      return false;
    }
    if (!decided) {
      done(std::unexpected(decided.error()));
      return true;
    }
    decided->boot = boot_;
    // Written down first: what is opened for it is then known as the claim's, whatever happens.
    if (const auto recorded = record(claim.name.uid, *decided, "cannot write down that the claim is prepared");
        !recorded)
      done(std::unexpected(recorded.error()));
    else
      make(claim.name.uid, true, done);
    return true;
  });
}

void Claims::wait(const std::string& uid, Duration patience, std::function<bool(bool last)> attempt) {
  if (attempt(false)) return;
  auto& added = waiting_.emplace_back(uid, std::move(attempt), std::make_unique<os::Timer>(loop_));
  added.patience->start(patience, [this, uid] { try_again(uid, true); });
}

void Claims::try_again(const std::string& uid, bool last) {
  for (auto& each : std::exchange(waiting_, {}))
    if ((!uid.empty() && each.uid != uid) || !each.attempt(last)) waiting_.push_back(std::move(each));
}

void Claims::make(const std::string& uid, bool is_new, Prepared done) {
  const auto is_partition = [](const dra::Part& part) { return part.instance.has_value(); };
  if (is_new && std::ranges::any_of(prepared_.at(uid).parts, is_partition))
    callbacks_.changed();  // the MIG manager has to know before there is an instance
  make_instances(uid, 0, [this, uid, is_new, done = std::move(done)](const Status& there) {
    const auto described = [this, uid, is_new, done](const Status& ready) {
      const auto& now = prepared_.at(uid);  // with the UUIDs of what was made
      auto devices = ready ? describe(now) : std::unexpected(ready.error());
      if (!devices && is_new)  // as it was before
        return end(uid, [why = devices.error(), done](const Status&) { done(std::unexpected(why)); });
      const bool is_made = devices && is_new;
      if (is_made) log::info("claim.prepared", {{"claim", dra::to_string(now.name)}, {"parts", now.parts.size()}});
      done(std::move(devices));
      if (is_made) callbacks_.changed();  // kubelet does not wait for it
    };
    if (!there) return described(there);
    open_parts(uid, 0, is_new ? Opening::kNew : Opening::kAgain, described);
  });
}

void Claims::open_parts(const std::string& uid, std::size_t from, Opening opening, Ended done) {
  const auto& claim = prepared_.at(uid);
  const auto passes = [&](const dra::Part& part) {
    return !is_first_of_its_endpoint(claim, part) || (opening == Opening::kMissing && !lacks(part));
  };
  while (from < claim.parts.size() && passes(claim.parts[from])) ++from;
  if (from >= claim.parts.size()) return done({});
  const auto& part = claim.parts[from];
  mps_.request(
      mps::OpenEndpointRequest{
          .endpoint = {part.mps_pool, part.grant},
          .terms = {.limits = limits_of(claim, part.grant), .any_pod = claim.pod.empty(), .pod = claim.pod_uid},
          .new_tenant = opening == Opening::kNew},
      [this, uid, from, opening, grant = part.grant, done = std::move(done)](const auto& opened) {
        if (opened) {
          opened_.insert(grant);
          return open_parts(uid, from + 1, opening, done);
        }
        const auto why = within(opened.error(), "cannot open the claim's MPS endpoint; kubelet asks again");
        if (opening != Opening::kMissing) return done(std::unexpected(why));
        // The failure of one pool does not affect the parts of other pools.
        open_parts(uid, from + 1, opening, [why, done](const Status&) { done(std::unexpected(why)); });
      });
}

Result<std::vector<grants::Grant>> Claims::grants_of(const dra::PreparedClaim& claim) const {
  std::vector<grants::Grant> grants;
  for (const auto& part : claim.parts) {
    grants::ClaimPart wanted{part.grant, {}};
    for (const auto& other : claim.parts) {
      if (other.grant != part.grant || other.request != part.request) continue;
      const auto gpu = std::ranges::find(inputs_.gpus, other.gpu_uuid, &plan::PlannedDevice::uuid);
      if (gpu == inputs_.gpus.end())
        return fail(Kind::kNotFound, fmt::format("the GPU {} of the claim is not on this node any more; delete the "
                                                 "claim and its pods, and create them again",
                                                 other.gpu_uuid));
      wanted.devices.push_back({*gpu, other.of_each_process()});
      wanted.devices.back().planned.pool = part.mps_pool;
    }
    std::ranges::sort(wanted.devices, {}, [this](const auto& device) {  // in driver order
      return std::ranges::find(inputs_.gpus, device.planned.uuid, &plan::PlannedDevice::uuid) - inputs_.gpus.begin();
    });
    auto grant = grants::allocate(wanted, inputs_.allocation);
    mps::put_shared_memory(inputs_.allocation.paths, pools_, grant);
    grants.push_back(std::move(grant));
  }
  return grants;
}

// The claim's CDI specification, written, and the answer that names its devices.
Result<std::vector<kubelet::DraDevice>> Claims::describe(const dra::PreparedClaim& claim) {
  if (!inputs_known_) return fail(Kind::kUnavailable, "the GPUs of this node are not known yet; kubelet asks again");
  const auto& driver = claim.driver;
  TRY(const auto grants, grants_of(claim));
  const auto file = dra::claim_spec_file(driver, claim.name.uid);
  TRY(const bool written, cdi::write_spec(cdi_root_, file, dra::claim_spec(claim, grants)));
  if (written) log::info("cdi.written", {{"file", file}});
  if (!specs_watch_ && standing_ == ClaimsStanding::kOurs) watch_specs();
  std::vector<kubelet::DraDevice> devices;
  for (std::size_t i = 0; i < claim.parts.size(); ++i) {
    for (const auto& device : claim.parts[i].devices) {
      kubelet::DraDevice answer{claim.parts[i].request, device, grants[i].cdi_devices};
      answer.cdi_ids.push_back(dra::claim_cdi_id(driver, dra::cdi_device_name(claim.name, claim.parts[i], device)));
      devices.push_back(std::move(answer));
    }
  }
  return devices;
}

// --- unprepare -----------------------------------------------------------------------------------------------------

void Claims::unprepare(const dra::ClaimName& claim, Unprepared done) {
  if (standing_ == ClaimsStanding::kGivenUp) return done(std::unexpected(with_newer_agent()));
  // A prepare that waits for this claim fails now: kubelet has given the claim up.
  try_again(claim.uid, true);
  enqueue(claim.uid, [this, claim, done = std::move(done)] {
    const Unprepared answer = [this, claim, done](Status status) {
      if (!status) log::warning("claim.not_unprepared", {{"claim", dra::to_string(claim)}, {"why", status.error()}});
      done(std::move(status));
      next(claim.uid);
    };
    if (!prepared_.contains(claim.uid)) return leave_nothing(claim, answer);
    end(claim.uid, [claim, answer](const Status& ended) {
      if (ended) log::info("claim.unprepared", {{"claim", dra::to_string(claim)}});
      answer(ended);
    });
  });
}

// Endpoints, MIG instances, and then the record: it stays where one of these may be left. `tranche mps` stops clients
// that are left, waits for their work and ends them, without harm to other tenants'.
void Claims::end(const std::string& uid, const Ended& done) {
  Endpoints endpoints;
  const auto& claim = prepared_.at(uid);
  for (const auto& part : claim.parts)
    if (is_first_of_its_endpoint(claim, part)) endpoints.emplace_back(part.mps_pool, part.grant);
  const auto ended = [this, uid, done](const Status& removed) {
    done(removed ? forget(uid) : removed);
    callbacks_.changed();
    try_again();
  };
  close(std::move(endpoints), [this, uid, ended](const Status& closed) {
    if (!closed) return ended(closed);
    remove_instances(uid, 0, ended);
  });
}

void Claims::close(Endpoints endpoints, Ended done) {
  if (endpoints.empty()) return done({});
  const auto [pool, grant] = endpoints.back();
  endpoints.pop_back();
  mps_.request(mps::RemoveEndpointRequest{{pool, grant}}, [this, pool, left = std::move(endpoints),
                                                           done = std::move(done)](const auto& removed) {
    const bool no_pool = pools_.connected && !pools_.pools.contains(pool);
    if (removed || no_pool) return close(left, done);
    done(std::unexpected(within(removed.error(), "cannot close the claim's MPS endpoint; kubelet asks again")));
  });
}

// There may be more of a claim than its record, which can be lost. Another driver's part of the claim has a file too.
void Claims::leave_nothing(const dra::ClaimName& unknown, Unprepared done) {
  std::vector<std::string> files;
  Endpoints endpoints;
  for (const auto& file : os::names_in(cdi_root_)) {
    if (!dra::is_claim_spec_file(file, unknown.uid)) continue;
    const auto text = os::read_file(cdi_root_ + "/" + file);
    const auto read = text ? dra::read_claim_spec(file, *text) : std::nullopt;
    const bool named_so = inputs_known_ && file == dra::claim_spec_file(inputs_.offered.driver, unknown.uid);
    if (!named_so && !(read && (read->claim || !read->endpoints.empty()))) continue;
    files.push_back(file);
    if (read) endpoints.insert(endpoints.end(), read->endpoints.begin(), read->endpoints.end());
  }
  if (files.empty()) return done({});
  close(std::move(endpoints), [this, unknown, files, done](const Status& closed) {
    Status left = closed;
    for (const auto& file : files)
      if (left) left = cdi::remove_spec(cdi_root_, file);
    if (left)
      log::warning("claim.unprepared", {{"claim", dra::to_string(unknown)},
                                        {"why", "its record is lost; its CDI specification named its endpoints"}});
    done(left);
  });
}

// The specification first: one without a record is taken for a claim whose record is lost.
Status Claims::forget(const std::string& uid) {
  const auto claim = prepared_.at(uid);
  TRY_STATUS(cdi::remove_spec(cdi_root_, dra::claim_spec_file(claim.driver, uid)));
  TRY_STATUS(record(uid, std::nullopt, "cannot write down that the claim is unprepared"));
  for (const auto& part : claim.parts) opened_.erase(part.grant);
  not_reopened_.erase(uid);
  return {};
}

// A node has hundreds of claims, and a change is one of them.
Status Claims::write() {
  std::string text;
  for (const auto& [uid, claim] : prepared_) {
    auto& line = lines_[uid];
    if (line.empty()) line = dra::render_prepared(claim);
    text += line;
  }
  TRY(const auto dir, os::Dir::open(run_dir_));
  return os::write_kept(dir, kFile, text, 0600, os::Sync::kYes);
}

Status Claims::record(const std::string& uid, std::optional<dra::PreparedClaim> now, const char* failure) {
  auto before = prepared_.extract(uid);
  if (now) prepared_[uid] = *std::move(now);
  lines_.erase(uid);
  const auto written = write();
  if (written) return {};
  prepared_.erase(uid);
  prepared_.insert(std::move(before));
  lines_.erase(uid);
  return std::unexpected(within(written.error(), failure));
}

// --- what is put back ----------------------------------------------------------------------------------------------

void Claims::restore_specs() {
  if (!inputs_known_ || standing_ != ClaimsStanding::kOurs || prepared_.empty()) return;
  const bool watched = specs_watch_ || watch_specs();  // the removal of a file after the look causes an event
  const auto dir = os::Dir::open(cdi_root_);
  for (const auto& [uid, claim] : prepared_) {
    if (dir && dir->exists(dra::claim_spec_file(claim.driver, uid))) continue;
    if (std::ranges::any_of(claim.parts, [](const auto& part) { return !part.is_made(); })) continue;  // asked again
    if (const auto described = describe(claim); !described)
      log::warning("claim.spec_not_restored", {{"claim", dra::to_string(claim.name)}, {"why", described.error()}});
  }
  if (!watched && watch_specs()) restore_specs();  // the directory exists now
}

// A container that is started again needs the file: kubelet prepares a claim for a new pod sandbox only.
bool Claims::watch_specs() {
  auto watch = os::DirWatch::open(loop_, cdi_root_, [this](const std::string& name) {
    if (name.empty()) specs_watch_.reset();  // the directory may have been replaced
    // Each claim that is prepared or unprepared changes the directory.
    const auto dir = os::Dir::open(cdi_root_);
    if (!name.empty() && (!dra::is_claim_spec_file(name) || (dir && dir->exists(name)))) return;
    restore_specs();
  });
  if (!watch) return false;
  specs_watch_ = *std::move(watch);
  return true;
}

// After a restart of `tranche mps` the request is repeated until it succeeds: a pool that starts refuses it.
bool Claims::lacks(const dra::Part& part) const {
  const auto pool = pools_.pools.find(part.mps_pool);
  if (part.grant.empty() || pool == pools_.pools.end()) return false;
  return !opened_.contains(part.grant) || mps::find_endpoint(pool->second, part.grant) == nullptr;
}

void Claims::on_pools(const mps::PoolReports& pools) {
  if (!pools_.connected && pools.connected) {
    opened_.clear();
    reopen_timer_.stop();
  }
  pools_ = pools;
  if (!pools.connected || reopen_timer_.running() || standing_ != ClaimsStanding::kOurs) return;
  bool any = false;
  for (const auto& [uid, claim] : prepared_) {
    if (std::ranges::none_of(claim.parts, [this](const dra::Part& part) { return lacks(part); })) continue;
    any = true;
    if (!jobs_.contains(uid)) enqueue(uid, [this, uid = uid] { reopen(uid); });
  }
  if (any) reopen_timer_.start(kReopenAfter, [this] { on_pools(mps::PoolReports(pools_)); });
}

void Claims::reopen(const std::string& uid) {
  if (!prepared_.contains(uid)) return next(uid);
  open_parts(uid, 0, Opening::kMissing, [this, uid](const Status& opened) {
    const auto why = opened ? std::string() : to_string(opened.error());
    if (!why.empty() && not_reopened_[uid] != why) log::warning("claim.not_reopened", {{"claim", uid}, {"why", why}});
    not_reopened_[uid] = why;
    next(uid);
  });
}

}  // namespace tranche::node

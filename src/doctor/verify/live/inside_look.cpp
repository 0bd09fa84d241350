// The share that this container holds, by the variables that its grant gave it, tried from where it is used.

#include "base/json_read.h"
#include "base/text.h"
#include "doctor/verify/check_groups.h"
#include "doctor/verify/live/probes.h"
#include "grants/allocate/grant.h"
#include "plan/client_limits.h"

namespace tranche::verify {
namespace {

// "12", or "GPU-a=12,GPU-b=14".
Result<std::uint64_t> sms_of(const std::string& text, const std::string& gpu) {
  if (text.empty()) return 0;
  for (const auto part : split(text, ',')) {
    const auto equals = part.find('=');
    const auto number = parse_unsigned(equals == std::string_view::npos ? part : part.substr(equals + 1));
    if (!number) return fail(Kind::kInvalid, "--sms: not \"12\" nor \"GPU-a=12,GPU-b=14\"", text);
    if (equals == std::string_view::npos || part.substr(0, equals) == gpu) return *number;
  }
  return 0;
}

// By a probe that is asked for nothing.
Result<std::string> gpu_seen(Probes& probes, const GrantHere& grant) {
  const auto run = probes.run(grant, {"--seconds", "0"});
  if (auto uuid = text_at(map_at(report_of(run), "device"), "uuid"); !uuid.empty()) return uuid;
  return fail(Kind::kUnavailable,
              "CUDA does not start here: " + std::string(run.output.empty() ? run.not_started : trimmed(run.output)),
              "tranche probe");
}

Result<std::vector<DeepGrant>> grants_here(const VerifyOptions& options, Probes& probes, const GrantHere& grant) {
  std::vector<DeepGrant> grants;
  TRY(const auto gpu, gpu_seen(probes, grant));  // it starts at all
  const std::string limit = config::variable(options.environment, plan::kPinnedLimitVariable);
  if (limit.empty()) {
    grants.push_back({.gpu = gpu});
  } else {
    TRY(const auto limits, plan::parse_pinned_limit(limit));
    for (const auto& [device, memory] : limits) grants.push_back({.gpu = device, .memory_mib = memory.in_mib()});
  }
  for (auto& one : grants) {
    TRY(one.sms, sms_of(options.sms, one.gpu));
  }
  return grants;
}

}  // namespace

Status try_inside(const VerifyOptions& options, Findings& checks) {
  GrantHere grant{.endpoint = config::variable(options.environment, "CUDA_MPS_PIPE_DIRECTORY"), .env = {}};
  if (grant.endpoint.empty())
    return fail(Kind::kNotFound,
                "this container has no share of MPS (no CUDA_MPS_PIPE_DIRECTORY): ask for a resource that is shared by "
                "MPS or for a claim of a share, or run `tranche probe` for what the whole GPU is",
                "the environment");
  TRY(const auto loop, os::Loop::open());
  Probes probes(*loop, {options.environment.begin(), options.environment.end()}, ProbePlace::kContainer);
  TRY(const auto grants, grants_here(options, probes, grant));
  std::vector<std::string> gpus;
  for (const auto& expected : grants) gpus.push_back(expected.gpu);
  check_environment({options.environment.begin(), options.environment.end()}, gpus, checks);
  for (const auto& expected : grants) {
    GrantHere here = grant;
    if (expected.gpu.starts_with("GPU-")) here.env["CUDA_VISIBLE_DEVICES"] = expected.gpu;
    try_grant(probes, options, {}, {expected, here, {}, options.observed}, checks);
  }
  return {};
}

}  // namespace tranche::verify

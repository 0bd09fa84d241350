#include "gemm-check/check.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.h"
#include "gemm-check/gemm_report.h"
#include "gemm-check/gemm_run.h"
#include "probe/main.h"

namespace tranche::gemm_check {
namespace {

constexpr const char* kProgram = "gemm-check";

std::string to_json(const probe::ProbeReport& report, const GemmReport& gemm) {
  auto json = nlohmann::ordered_json::parse(probe::to_json(report));
  json["gemm"] = gemm_json(gemm);
  return json_text(json) + "\n";
}

// The exit status for a report.
int verdict(const probe::ProbeReport& report, const GemmReport& gemm, std::FILE* err) {
  if (report.wrong_words != 0) {
    std::fprintf(err, "%s: %llu of %llu words that the GPU computed are wrong; take this GPU out of use\n", kProgram,
                 static_cast<unsigned long long>(report.wrong_words),
                 static_cast<unsigned long long>(report.checked_words));
    return 1;
  }
  switch (gemm.outcome()) {
    case GemmOutcome::kRight:
      return 0;
    case GemmOutcome::kWrong:
      std::fprintf(err,
                   "%s: %llu of %zu matrix products are wrong on %u SMs; do not give this number of SMs to anybody "
                   "(sharing.mps.smRounding, data/sm-counts.yaml)\n",
                   kProgram, static_cast<unsigned long long>(gemm.count(GemmOutcome::kWrong)), gemm.cases.size(),
                   report.sms_by_attribute);
      return 1;
    case GemmOutcome::kNotChecked:
      break;
  }
  std::fprintf(err, "%s: matrix products were NOT checked: %s\n", kProgram, gemm.not_checked.c_str());
  return 3;
}

}  // namespace

int check_main(const CheckOptions& options, std::FILE* out, std::FILE* err) {
  probe::block_ending_signals();
  probe::Watchdog watchdog(kProgram, err);
  probe::ProbeOptions probe;
  probe.device = options.device;
  probe.run_for = {};
  probe.stop = probe::ending_signal_pending;
  probe.on_stage = [&](const char* stage) { watchdog.enter(stage, options.deadline); };

  Result<GemmReport> gemm = GemmReport{};
  const auto while_alive = [&](const probe::ProbeReport& report) {
    const auto cuda = CudaLibrary::open();  // the one that the probe has open, whose context is this thread's
    if (!cuda) {
      gemm = std::unexpected(cuda.error());
      return;
    }
    gemm = run_gemm(**cuda, options.gemm,
                    {report.capability_major, report.capability_minor,
                     std::max<std::uint32_t>(report.sms_by_attribute, 1), probe.stop, probe.on_stage});
    if (!gemm) return;
    std::fputs((options.json ? to_json(report, *gemm) : probe::to_text(report) + gemm_text(*gemm)).c_str(), out);
    std::fflush(out);
  };
  const Result<probe::ProbeReport> report = run_probe(probe, while_alive);
  if (!report || !gemm) {
    const Error& error = report ? gemm.error() : report.error();
    std::fprintf(err, "%s: %s\n", kProgram, to_string(error).c_str());
    std::fflush(err);
    return error.where == "--device" ? 2 : 1;
  }
  const int status = verdict(*report, *gemm, err);
  std::fflush(err);
  return status;
}

}  // namespace tranche::gemm_check

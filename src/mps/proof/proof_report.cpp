#include "mps/proof/proof_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"
#include "base/utf8.h"

namespace tranche::mps {
namespace {

using enum ProofVerdict;

constexpr std::size_t kManyClients = 15;  // the smallest limit is 16 (before Volta), including the proof

bool says(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The probe's message about its failure: the last line, without its name.
std::string failure_text(std::string_view output) {
  std::string_view last;
  for (const auto line : lines_of(output)) {
    if (!trimmed(line).empty()) last = trimmed(line);
  }
  constexpr std::string_view kName = "tranche probe: ";
  if (last.starts_with(kName)) last.remove_prefix(kName.size());
  return cut_text(last, 400);
}

// nullopt: the output has no report.
std::optional<bool> connected(std::string_view output) {
  for (const auto line : lines_of(output)) {
    if (!line.starts_with('{')) continue;
    const auto report = json_of(line);
    const auto& sign = member_at(member_at(report, "mps"), "connected");
    if (sign.is_boolean()) return sign.get<bool>();
  }
  return std::nullopt;
}

}  // namespace

ProofReading read_proof(const ProbeEnded& probe) {
  const std::string failure = failure_text(probe.output);
  if (probe.timed_out) return {kWedged, "a CUDA start hung and was killed at its deadline"};
  if (probe.exit_code == 0) {
    const auto sign = connected(probe.output);
    if (sign && *sign) return {kPassed, ""};
    return {kInconclusive, sign ? "CUDA started, and nothing shows that it did so through MPS"
                                : "CUDA started, but its report was not understood"};
  }
  if (says(failure, "libcuda.so")) return {kInconclusive, failure};
  if (says(failure, "no answer from the driver within")) return {kWedged, failure};
  if (says(failure, "that the GPU computed are wrong")) return {kUnfit, failure};
  if (says(failure, "CUDA_ERROR_OUT_OF_MEMORY")) {
    return {kInconclusive, "no memory was left for a CUDA start, which is no sign of a wedge: " + failure};
  }
  if (says(failure, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED") || says(failure, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED")) {
    return {kInconclusive, "the pool has as many clients as it can: " + failure};
  }
  if (says(failure, "CUDA_ERROR_DEVICE_UNAVAILABLE") && probe.clients >= kManyClients) {
    return {kInconclusive,
            fmt::format("busy with {} clients, which is no sign of a wedge: {}", probe.clients, failure)};
  }
  if (says(failure, "CUDA_ERROR_MPS_CLIENT_TERMINATED")) return {kInconclusive, "it was ended through MPS: " + failure};
  if (says(failure, "CUDA_ERROR_MPS_SERVER_NOT_READY")) {
    return {kUnfit, "the server accepts no new clients while it handles a fatal GPU error: " + failure};
  }
  if (says(failure, "CUDA_ERROR_NO_DEVICE") || says(failure, "CUDA_ERROR_DEVICE_NOT_LICENSED") ||
      says(failure, "CUDA_ERROR_ECC_UNCORRECTABLE") || says(failure, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")) {
    return {kUnfit, failure};
  }
  if (!says(failure, "CUDA_ERROR_")) {
    return {kInconclusive, fmt::format("the CUDA start could not be tried (status {}): {}", probe.exit_code, failure)};
  }
  return {kWedged, failure};
}

}  // namespace tranche::mps

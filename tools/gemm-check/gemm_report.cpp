#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "gemm-check/gemm_report.h"

namespace tranche::gemm_check {
namespace {

std::string found(const GemmCase& one) {
  if (one.outcome == GemmOutcome::kNotChecked) return "not checked: " + one.note;
  if (one.outcome == GemmOutcome::kRight) return "right";
  const auto percent = [&one](std::uint64_t part) {
    return 100.0 * static_cast<double>(part) / static_cast<double>(one.elements);
  };
  return fmt::format("WRONG: {:.1f} % never written, {:.1f} % not the product", percent(one.unwritten),
                     percent(one.wrong));
}

}  // namespace

std::string gemm_text(const GemmReport& r) {
  std::string text;
  if (r.cases.empty()) return fmt::format("{:<12} NOT CHECKED: {}\n", "products", r.not_checked);
  text += fmt::format("{:<12} {} right, {} wrong, {} not checked, in {:.1f} s (cuBLAS {}, {})\n", "products",
                      r.count(GemmOutcome::kRight), r.count(GemmOutcome::kWrong), r.count(GemmOutcome::kNotChecked),
                      r.seconds, r.version, r.library);
  text += fmt::format("  {:<18} {:<5} {:<6} {:>10}  {}\n", "m x n x k", "type", "layout", "GFLOP/s", "result");
  for (const GemmCase& one : r.cases) {
    text += fmt::format("  {:<18} {:<5} {:<6} {:>10}  {}\n", to_string(one.shape), to_string(one.type), layout_of(one),
                        one.gflops > 0 ? fmt::format("{:.0f}", one.gflops) : "-", found(one));
  }
  return text;
}

nlohmann::ordered_json gemm_json(const GemmReport& r) {
  using Json = nlohmann::ordered_json;
  Json json = {{"checked", r.outcome() != GemmOutcome::kNotChecked},
               {"right", r.count(GemmOutcome::kRight)},
               {"wrong", r.count(GemmOutcome::kWrong)},
               {"notChecked", r.count(GemmOutcome::kNotChecked)}};
  if (!r.not_checked.empty()) json["reason"] = r.not_checked;
  json["library"] = r.library;
  json["cublas"] = r.version;
  json["seconds"] = r.seconds;
  json["cases"] = Json::array();
  for (const GemmCase& one : r.cases) {
    Json entry = {{"shape", to_string(one.shape)},
                  {"type", to_string(one.type)},
                  {"layout", layout_of(one)},
                  {"outcome", to_string(one.outcome)},
                  {"elements", one.elements},
                  {"unwritten", one.unwritten},
                  {"wrong", one.wrong},
                  {"gflops", one.gflops}};
    if (!one.note.empty()) entry["note"] = one.note;
    json["cases"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace tranche::gemm_check

#include <CLI/CLI.hpp>

#include "gemm-check/check.h"

namespace {

tranche::Status read(const std::string& shapes, const std::string& types, tranche::gemm_check::GemmOptions& options) {
  if (!shapes.empty()) {
    TRY(options.shapes, tranche::gemm_check::parse_gemm_shapes(shapes));
  }
  if (!types.empty()) {
    TRY(options.types, tranche::gemm_check::parse_gemm_types(types));
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tranche;
  gemm_check::CheckOptions options;
  std::string shapes, types;
  double deadline = 30;
  CLI::App app{"Checks matrix products of cuBLAS on a GPU, element by element, against products of its own",
               "gemm-check"};
  app.add_option("--device", options.device, "index or UUID; the first visible by default");
  app.add_option("--shapes", shapes, "512,16x4096x4096 instead of twelve usual ones (m x n x k)");
  app.add_option("--types", types, "of bf16,fp16,fp8,tf32,fp32; all by default");
  app.add_option("--cublas", options.gemm.cublas, "libcublas.so.N or its directory; looked for by default");
  app.add_option("--driver-root", options.gemm.driver_root, "where the node's files are seen, for cuBLAS");
  app.add_option("--deadline", deadline, "seconds for each stage")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  app.add_flag("--json", options.json, "the report as one line of JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Status parsed = read(shapes, types, options.gemm);
  if (!parsed) {
    std::fprintf(stderr, "gemm-check: %s\n", to_string(parsed.error()).c_str());
    return 2;
  }
  options.deadline = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(deadline));
  return gemm_check::check_main(options, stdout, stderr);
}

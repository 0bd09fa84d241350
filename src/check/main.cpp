#include "check/main.h"

#include "check/render.h"

namespace tranche::check {

int check_main(const CheckOptions& options, bool json, std::FILE* out) {
  const std::vector<Finding> findings = run_checks(options);
  std::fputs((json ? to_json(findings) : to_table(findings)).c_str(), out);
  std::fflush(out);
  return has_error(findings) ? 1 : 0;
}

}  // namespace tranche::check

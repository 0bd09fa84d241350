#include "doctor/check/main.h"

#include "base/terminal_text.h"
#include "doctor/check/render.h"

namespace tranche::check {

int check_main(const CheckOptions& options, bool json, std::FILE* out, int width) {
  const std::vector<Finding> findings = run_checks(options);
  std::fputs((json ? to_json(findings) : fitted(to_table(findings), width)).c_str(), out);
  std::fflush(out);
  return has_error(findings) ? 1 : 0;
}

}  // namespace tranche::check

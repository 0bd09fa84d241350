// Any text as the runtime wrapper's files and as a drain socket's answer: paths are absolute, and nothing is read
// beyond the text.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "termination/program_arguments.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::stopping;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto conf = read_runtime_conf(text);
  const auto record = read_container_record(text);
  for (const auto path : {conf.runtime, conf.run_dir, record.drain})
    if (!path.empty() && (path.front() != '/' || path.find('\n') != std::string_view::npos)) std::abort();
  if (says_ok(text) && text.find("\"ok\"") == std::string::npos) std::abort();
  return 0;
}

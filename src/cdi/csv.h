#pragma once
// The CSV files of a Tegra system: one line for each file or device that containers need, `dev|dir|lib|sym, <absolute
// path>`, where a path may have wildcards. NVIDIA's reader ignores a line that it cannot parse; here it is a Problem (a
// warning: the other lines are used). Pure; fuzzed.
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/problem.h"

namespace tranche::cdi {

enum class CsvKind { kDevice, kDirectory, kLibrary, kLink };
ENUM_NAMES(CsvKind::kLink, "dev", "dir", "lib", "sym")

struct CsvEntry {
  CsvKind kind = CsvKind::kDevice;
  std::string path;
  friend bool operator==(const CsvEntry&, const CsvEntry&) = default;
};

struct ParsedCsv {
  std::vector<CsvEntry> entries;  // in file order
  std::vector<Problem> problems;
};

ParsedCsv parse_csv(std::string_view text, std::string_view source);

// A link to a library: the loader's cache creates it in containers, so NVIDIA's specs omit it.
bool is_library_link(std::string_view path);  // *.so, *.so.<digit>

inline constexpr const char* kCsvDirectory = "/etc/nvidia-container-runtime/host-files-for-container.d";
inline constexpr std::string_view kCsvFiles[] = {"devices.csv", "drivers.csv", "l4t.csv"};

}  // namespace tranche::cdi

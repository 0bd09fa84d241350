#include <algorithm>
#include <array>

#include "health/health.h"

namespace tranche::health {
namespace {

struct Range {
  std::uint64_t from;
  std::uint64_t to;
  XidClass cls;
};

// By NVIDIA's XID catalogue: "restart application" and "ignore" are kIgnore (the process dies, the GPU is fine),
// "reset GPU" is kReset, node-level actions and what the catalogue does not know are kDrain. 109 is a reset in the
// catalogue, but NVIDIA's device plugin ignores it with 13, 31, 43, 45 and 68, and so do we. Sorted, without overlap.
constexpr std::array kTable{
    Range{8, 8, XidClass::kIgnore},     Range{11, 11, XidClass::kIgnore},   Range{13, 14, XidClass::kIgnore},
    Range{25, 25, XidClass::kIgnore},   Range{31, 32, XidClass::kIgnore},   Range{37, 41, XidClass::kIgnore},
    Range{43, 45, XidClass::kIgnore},   Range{46, 46, XidClass::kReset},    Range{48, 48, XidClass::kReset},
    Range{60, 60, XidClass::kIgnore},   Range{62, 62, XidClass::kReset},    Range{63, 63, XidClass::kIgnore},
    Range{64, 64, XidClass::kReset},    Range{66, 72, XidClass::kIgnore},   Range{74, 74, XidClass::kReset},
    Range{75, 77, XidClass::kIgnore},   Range{80, 80, XidClass::kIgnore},   Range{82, 86, XidClass::kIgnore},
    Range{88, 89, XidClass::kIgnore},   Range{92, 94, XidClass::kIgnore},   Range{95, 95, XidClass::kReset},
    Range{96, 109, XidClass::kIgnore},  Range{110, 110, XidClass::kReset},  Range{119, 120, XidClass::kReset},
    Range{121, 121, XidClass::kIgnore}, Range{126, 135, XidClass::kIgnore}, Range{136, 136, XidClass::kReset},
    Range{137, 137, XidClass::kIgnore}, Range{139, 139, XidClass::kIgnore}, Range{140, 140, XidClass::kReset},
    Range{141, 141, XidClass::kIgnore}, Range{143, 150, XidClass::kReset},  Range{152, 154, XidClass::kIgnore},
    Range{155, 156, XidClass::kReset},  Range{157, 157, XidClass::kIgnore}, Range{158, 158, XidClass::kReset},
    Range{160, 166, XidClass::kIgnore},
};

}  // namespace

XidClass classify_xid(std::uint64_t xid) {
  const auto it = std::ranges::find_if(kTable, [&](const Range& r) { return r.from <= xid && xid <= r.to; });
  return it == kTable.end() ? XidClass::kDrain : it->cls;
}

std::string_view to_string(XidClass cls) {
  switch (cls) {
    case XidClass::kIgnore:
      return "ignore";
    case XidClass::kDrain:
      return "drain";
    case XidClass::kReset:
      return "reset";
  }
  return "drain";
}

}  // namespace tranche::health

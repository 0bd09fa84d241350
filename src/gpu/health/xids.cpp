#include "gpu/health/xids.h"

#include <algorithm>
#include <array>

namespace tranche::health {
namespace {

// From data/xids.yaml (src/gpu/CMakeLists.txt): sorted, without overlap.
constexpr std::array kTable{
#include "xid_rules.inc"
};

}  // namespace

std::span<const XidRule> xid_rules() {
  return kTable;
}

const XidRule* find_xid(std::uint64_t xid) {
  const auto it = std::ranges::find_if(kTable, [&](const XidRule& rule) { return rule.from <= xid && xid <= rule.to; });
  return it == kTable.end() ? nullptr : it;
}

XidClass class_of_xid(std::uint64_t xid) {
  const XidRule* rule = find_xid(xid);
  return rule == nullptr ? XidClass::kDrain : rule->cls;
}

}  // namespace tranche::health

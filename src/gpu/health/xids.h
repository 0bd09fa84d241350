#pragma once
// data/xids.yaml compiled in: what each XID error of NVIDIA's driver means for a GPU's slots. The file lists the
// sources. How a node's variables change that is in healthchecks.h. Pure.
#include <cstdint>
#include <span>
#include <string_view>

#include "base/enum_names.h"

namespace tranche::health {

enum class XidClass {
  kIgnore,       // a notice
  kApplication,  // the process that caused it dies, the GPU is fine
  kDrain,        // no new work until the GPU has been quiet, answers, and no action is pending
  kReset,        // the GPU needs a reset: the fault does not end by waiting
};
ENUM_NAMES(XidClass::kReset, "ignore", "application", "drain", "reset")

struct XidRule {
  std::uint64_t from = 0;
  std::uint64_t to = 0;  // inclusive
  XidClass cls = XidClass::kDrain;
  std::string_view meaning;
};

std::span<const XidRule> xid_rules();        // by number
const XidRule* find_xid(std::uint64_t xid);  // nullptr: not in the catalogue
XidClass class_of_xid(std::uint64_t xid);    // kDrain if it is not in the catalogue

}  // namespace tranche::health

#pragma once
// data/xids.yaml compiled in: what each XID error of NVIDIA's driver means for a GPU's slots. xids_test compares the
// two; the file holds the sources. What a node's own variables change of it is healthchecks.h. Pure.
#include <cstdint>
#include <span>
#include <string_view>

namespace tranche::health {

enum class XidClass {
  kIgnore,       // a notice
  kApplication,  // the process that caused it dies, the GPU is fine
  kDrain,        // no new work until the GPU has been quiet, answers, and nothing is pending
  kReset,        // the GPU needs a reset: waiting alone ends nothing
};
std::string_view to_string(XidClass cls);  // "ignore", "application", "drain", "reset"

struct XidRule {
  std::uint64_t from = 0;
  std::uint64_t to = 0;  // inclusive
  XidClass cls = XidClass::kDrain;
  std::string_view meaning;
};

std::span<const XidRule> xid_rules();        // by number
const XidRule* find_xid(std::uint64_t xid);  // nullptr: nothing is known about it
XidClass class_of_xid(std::uint64_t xid);    // kDrain when nothing is known

}  // namespace tranche::health

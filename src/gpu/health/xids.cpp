#include "gpu/health/xids.h"

#include <algorithm>
#include <array>

#include "base/enum_names.h"

namespace tranche::health {
namespace {

// data/xids.yaml compiled in: sorted, without overlap.
constexpr std::array kTable{
    XidRule{8, 8, XidClass::kApplication, "watchdog: work on the GPU took too long"},
    XidRule{11, 11, XidClass::kApplication, "bad command stream"},
    XidRule{13, 13, XidClass::kApplication, "exception in the graphics or compute engine"},
    XidRule{14, 14, XidClass::kIgnore, "not in use"},
    XidRule{25, 25, XidClass::kApplication, "bad command stream"},
    XidRule{31, 31, XidClass::kApplication, "access to memory that is not mapped"},
    XidRule{32, 32, XidClass::kApplication, "bad command stream (DMA unit)"},
    XidRule{37, 38, XidClass::kIgnore, "notice of the driver's firmware"},
    XidRule{39, 41, XidClass::kApplication, "exception in copy engine 0 to 2"},
    XidRule{43, 43, XidClass::kApplication, "a channel was stopped after a fault of its application"},
    XidRule{44, 44, XidClass::kIgnore, "fault during a context switch"},
    XidRule{45, 45, XidClass::kIgnore, "cleanup of channels after an earlier error or the end of a process"},
    XidRule{46, 46, XidClass::kReset, "the GPU stopped processing"},
    XidRule{48, 48, XidClass::kReset, "double-bit memory error"},
    XidRule{54, 54, XidClass::kDrain, "auxiliary power is not connected"},
    XidRule{60, 60, XidClass::kApplication, "exception in the video processor"},
    XidRule{62, 62, XidClass::kReset, "the GPU's internal micro-controller stopped"},
    XidRule{63, 63, XidClass::kIgnore, "a memory row will be remapped at the next reset"},
    XidRule{64, 64, XidClass::kReset, "a memory row could not be marked for remapping"},
    XidRule{66, 67, XidClass::kIgnore, "illegal access by the driver"},
    XidRule{68, 68, XidClass::kApplication, "exception in video decoder 0"},
    XidRule{69, 69, XidClass::kApplication, "class error in the graphics engine"},
    XidRule{70, 72, XidClass::kApplication, "exception in copy engine 3 to 5"},
    XidRule{74, 74, XidClass::kReset, "NVLink error"},
    XidRule{75, 77, XidClass::kApplication, "exception in copy engine 6 to 8"},
    XidRule{78, 78, XidClass::kDrain, "a virtual GPU did not start"},
    XidRule{79, 79, XidClass::kDrain, "the GPU has fallen off the bus"},
    XidRule{80, 80, XidClass::kApplication, "corrupted data sent to the GPU"},
    XidRule{82, 86, XidClass::kApplication, "exception in JPEG unit 0 or in video decoder 1 to 4"},
    XidRule{88, 89, XidClass::kApplication, "exception in copy engine 9 or in the optical flow unit"},
    XidRule{92, 92, XidClass::kIgnore, "many single-bit memory errors, all corrected"},
    XidRule{93, 93, XidClass::kIgnore, "very many writes to the InfoROM"},
    XidRule{94, 94, XidClass::kApplication, "memory error contained to one application"},
    XidRule{95, 95, XidClass::kReset, "memory error that is not contained"},
    XidRule{96, 105, XidClass::kApplication, "exception in video decoder 5 to 7 or in JPEG unit 1 to 7"},
    XidRule{106, 108, XidClass::kIgnore, "notice"},
    XidRule{109, 109, XidClass::kApplication, "a context switch timed out"},
    XidRule{110, 110, XidClass::kReset, "security fault"},
    XidRule{119, 120, XidClass::kReset, "the GPU's system processor (GSP) does not answer, or reports an error"},
    XidRule{121, 121, XidClass::kIgnore, "corrected error on the chip-to-chip link"},
    XidRule{126, 135, XidClass::kApplication, "exception in copy engine 10 to 19"},
    XidRule{136, 136, XidClass::kReset, "link training failed"},
    XidRule{137, 137, XidClass::kIgnore, "NVLink fault at the remote end, or of privilege"},
    XidRule{139, 139, XidClass::kApplication, "exception in optical flow unit 1"},
    XidRule{140, 140, XidClass::kReset, "memory error that could not be repaired"},
    XidRule{141, 141, XidClass::kIgnore, "notice"},
    XidRule{142, 142, XidClass::kDrain, "exception in video encoder 3"},
    XidRule{143, 143, XidClass::kReset, "the GPU could not be initialised"},
    XidRule{144, 150, XidClass::kReset, "NVLink 5 error"},
    XidRule{151, 151, XidClass::kDrain, "key rotation failed (confidential computing)"},
    XidRule{152, 153, XidClass::kIgnore, "notice"},
    XidRule{154, 154, XidClass::kIgnore, "the recovery that the driver requests has changed"},
    XidRule{155, 155, XidClass::kReset, "NVLink error in software"},
    XidRule{156, 156, XidClass::kReset, "a resource of the GPU is being retired"},
    XidRule{157, 157, XidClass::kIgnore, "notice of a retired resource"},
    XidRule{158, 158, XidClass::kReset, "fatal time-out"},
    XidRule{159, 159, XidClass::kDrain, "error on the coherent link"},
    XidRule{160, 161, XidClass::kIgnore, "notice of a retired memory channel"},
    XidRule{162, 166, XidClass::kIgnore, "power smoothing"},
    XidRule{167, 167, XidClass::kDrain, "fatal PCIe time-out"},
    XidRule{168, 168, XidClass::kDrain, "the GPU runs with less memory"},
    XidRule{169, 169, XidClass::kDrain, "the security processor stopped"},
    XidRule{171, 172, XidClass::kDrain, "detail of a double-bit memory error"},
    XidRule{999, 999, XidClass::kDrain, "the driver library could not name the XID"},
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

std::string_view to_string(XidClass cls) {
  return enum_name<XidClass::kReset>(cls, {"ignore", "application", "drain", "reset"});
}

}  // namespace tranche::health

// Any list of ResourceSlices: what is read has a name and a version, and from whatever the server has, the writes end
// with what is wanted.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/json_text.h"
#include "dra/slice_diff.h"
#include "kube/object.h"

namespace {

tranche::dra::StoredSlice stored(const tranche::dra::SliceWrite& write) {
  auto object = tranche::json_of(tranche::dra::body_of(write, "n1", "uid"));
  object["metadata"]["resourceVersion"] = "18446744073709551615";
  return *tranche::dra::read_slice(object);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  std::vector<dra::StoredSlice> all;
  const auto head = kube::parse_list(body, [&all](const nlohmann::json& object) -> Status {
    (void)dra::features_of(object);
    TRY(auto slice, dra::read_slice(object));
    if (slice.name.empty() || slice.version.empty()) std::abort();
    all.push_back(std::move(slice));
    return {};
  });
  if (!head) return 0;
  dra::Device device;
  device.name = "gpu-0";
  dra::SliceLedger ledger;
  ledger.want(dra::slices_of({device}, {"gpu.tranche.io", "n1"}).list);
  ledger.replace(all);
  std::size_t writes = 0;
  while (const auto write = ledger.next()) {
    const bool gone = write->what == dra::SliceWrite::What::kDelete;
    ledger.written(*write, gone ? std::nullopt : std::optional(stored(*write)));
    if (++writes > all.size() + 8) std::abort();
  }
  if (ledger.stored().size() != 2) std::abort();
  return 0;
}

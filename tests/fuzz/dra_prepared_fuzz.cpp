// Any text as the file of prepared claims: what is read is written and read back the same. A line of JSON alone is
// given the hash that it needs, so that the reader of records is reached. And any text as the specification of a claim.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/text.h"
#include "dra/claim_spec.h"
#include "dra/prepared_fixture.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace dra = tranche::dra;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& input : {std::string(text), tranche::hex16(tranche::stable_hash(text)) + " " + std::string(text)}) {
    const auto read = dra::parse_prepared(input);
    const auto again = dra::parse_prepared(dra::render_prepared(read.claims));
    if (again.claims != read.claims || !again.lost.empty()) std::abort();
  }
  (void)dra::read_claim_spec("gpu.tranche.io-claim_a.json", text);
  return 0;
}

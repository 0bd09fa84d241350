#include "dra/quantity.h"

#include "base/quantity.h"
#include "base/text.h"

namespace tranche::dra {

Result<std::uint64_t> parse_quantity(std::string_view text) {
  const auto wrong = [text](const char* why) { return fail(tranche::Kind::kInvalid, in_quotes(text) + why); };
  const auto quantity = read_quantity(text);
  if (!quantity) return wrong(" is not a quantity");
  if (quantity->negative && quantity->value != 0) return wrong(" is negative");
  if (!quantity->value) return wrong(" does not fit into 64 bits");
  return *quantity->value;
}

}  // namespace tranche::dra

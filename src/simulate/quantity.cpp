#include "simulate/quantity.h"

#include "base/quantity.h"
#include "base/text.h"

namespace tranche::simulate {

Result<std::uint64_t> parse_count(std::string_view text) {
  const auto quantity = read_quantity(text);
  if (text.starts_with('-')) return fail(Kind::kInvalid, "is negative");
  if (!quantity) return fail(Kind::kInvalid, "is " + in_quotes(text));
  if (!quantity->whole) return fail(Kind::kInvalid, "is not whole");
  if (!quantity->value || *quantity->value > kMostDevices) return fail(Kind::kInvalid, "is more than any node has");
  return *quantity->value;
}

}  // namespace tranche::simulate

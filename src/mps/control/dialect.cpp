#include "mps/control/dialect.h"

#include "mps/control/dialect_v2.h"
#include "mps/control/dialect_v3.h"

namespace tranche::mps {

const Dialect& dialect_of(Tier tier) {
  static const V2Dialect v2;
  static const V3Dialect v3;
  switch (tier) {
    case Tier::kV2:
      return v2;
    case Tier::kV3:
      return v3;
  }
  return v2;
}

}  // namespace tranche::mps

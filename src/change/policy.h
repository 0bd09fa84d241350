#pragma once
// What happens to a GPU whose means of sharing change while containers hold slots of it.
#include <cstdint>

namespace tranche::change {

enum class Policy : std::uint8_t {
  kWait,   // it gives out nothing new and changes when it is free
  kForce,  // it changes at once; what runs there is the operator's loss
};

}  // namespace tranche::change

#pragma once
// What happens to a GPU whose means of sharing change while containers hold slots of it: the configuration's
// `sharing.change`.
#include "config/model.h"

namespace tranche::change {

// kWait: it gives out nothing new and changes when it is free. kForce: it changes at once, and what containers hold of
// it is taken from them (docs/guide/stop-and-change.md, "By force").
using Policy = config::ChangePolicy;

}  // namespace tranche::change

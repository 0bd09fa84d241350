#pragma once
// Private to mps/control/dialect: interface version 3. Each daemon has one server, and each grant a namespace; every
// command is one run of the program. Written from NVIDIA's manual; not tested on hardware.
#include "mps/control/dialect.h"

namespace tranche::mps {

class V3Dialect final : public Dialect {
 public:
  Tier tier() const override { return Tier::kV3; }
  std::vector<std::string> daemon_options(bool multiuser) const override;
  Exchange ask(QuestionId id, const DaemonLimits& desired) const override;
  Exchange apply(const ApplyLimits& action) const override;
  Exchange read(const ReadLimits& action) const override;
  Exchange apply_server(const ApplyServerLimits& action) const override;
  Run quit(Duration patience) const override;
};

}  // namespace tranche::mps

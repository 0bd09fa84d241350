#pragma once
// Private to mps/control/dialect: interface version 2.
#include "mps/control/dialect.h"

namespace tranche::mps {

class V2Dialect final : public Dialect {
 public:
  Tier tier() const override { return Tier::kV2; }
  std::vector<std::string> daemon_options(bool multiuser) const override;
  Exchange ask(QuestionId id, const DaemonLimits& desired) const override;
  Exchange apply(const ApplyLimits& action) const override;
  Exchange read(const ReadLimits& action) const override;
  Exchange apply_server(const ApplyServerLimits& action) const override;
  Run quit(Duration patience) const override;
};

}  // namespace tranche::mps

#pragma once
// Private to mps/dialect: interface version 2, and the static partitions that release 590 added to it.
#include "mps/dialect.h"

namespace tranche::mps {

class V2Dialect : public Dialect {
 public:
  Tier tier() const override { return Tier::kV2; }
  std::vector<std::string> daemon_options(bool multiuser) const override;
  Exchange ask(QuestionId id, const DaemonLimits& desired) const override;
  Exchange apply(const ApplyLimits& action) const override;
  Exchange read(const ReadLimits& action) const override;
  Exchange apply_server(const ApplyServerLimits& action) const override;
  Run quit(Duration patience) const override;
};

// The same, with -S: after the limits come the partitions, told and read back.
class StaticDialect final : public V2Dialect {
 public:
  Tier tier() const override { return Tier::kStatic; }
  std::vector<std::string> daemon_options(bool multiuser) const override;
  Exchange apply(const ApplyLimits& action) const override;
  Exchange read(const ReadLimits& action) const override;
};

}  // namespace tranche::mps

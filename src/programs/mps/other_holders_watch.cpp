#include "programs/mps/other_holders_watch.h"

#include "base/text.h"
#include "mps/protocol/other_holders.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::agent {

OtherHolders::OtherHolders(host::Loop& loop, std::string mps_root, std::function<void()> on_change)
    : mps_root_(std::move(mps_root)), on_change_(std::move(on_change)) {
  auto watch = host::DirWatch::open(loop, mps_root_, [this](const std::string& name) {
    if (name == mps::kOtherHoldersFile || name.empty()) look();
  });
  if (watch) {
    watch_ = *std::move(watch);
  } else {
    log::warning("other_holders.unwatched", {{"why", watch.error()}});
  }
  read();
}

void OtherHolders::look() {
  const auto before = devices_;
  read();
  if (devices_ != before) on_change_();
}

void OtherHolders::read() {
  const auto dir = host::Dir::open(mps_root_);
  const auto text = dir ? dir->read(mps::kOtherHoldersFile) : std::unexpected(dir.error());
  if (text) {
    devices_ = mps::parse_other_holders(*text);
  } else if (text.error().kind == Kind::kNotFound) {
    devices_.clear();
  } else {
    log::warning("other_holders.unread", {{"why", text.error()}});  // the last known value stays
  }
}

}  // namespace tranche::agent

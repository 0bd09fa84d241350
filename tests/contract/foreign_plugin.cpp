#include "contract/foreign_plugin.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdio>
#include <cstring>

#include "base/result.h"

namespace tranche::contract {

ForeignPlugin::ForeignPlugin(const std::string& path, bool listening)
    : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  // Renamed into place: between an unlink and a bind, a plugin that is quick would be back already.
  const std::string aside = path + "~";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  CHECK_THAT(aside.size() < sizeof(address.sun_path), "a short path");
  std::memcpy(address.sun_path, aside.c_str(), aside.size() + 1);
  CHECK_THAT(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0,
             "the foreign plugin binds");
  if (listening) CHECK_THAT(::listen(fd_.get(), 4) == 0, "the foreign plugin listens");
  CHECK_THAT(::rename(aside.c_str(), path.c_str()) == 0, "the foreign plugin replaces the socket");
}

}  // namespace tranche::contract

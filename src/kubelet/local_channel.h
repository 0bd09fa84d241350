#pragma once
// A client channel to a local unix socket, with nothing shared between channels: a fresh one connects at once, however
// often the one before it failed. Connects lazily.
#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace tranche::host {

std::shared_ptr<grpc::Channel> local_channel(const std::string& socket_path);

}  // namespace tranche::host

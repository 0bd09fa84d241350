#include "standins/kubelet/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"

namespace tranche::sim {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63u] : '=';
    }
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t group = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const auto digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    group = group << 6 | static_cast<std::uint32_t>(digit);
    if ((bits += 6) >= 8) bytes += static_cast<char>(group >> (bits -= 8) & 0xffu);
  }
  return bytes;
}

nlohmann::json data_of(const Checkpoint& checkpoint) {
  nlohmann::json entries = nlohmann::json::array();
  for (const Holding& holding : checkpoint.holdings) {
    entries.push_back({{"PodUID", holding.pod_uid},
                       {"ContainerName", holding.container},
                       {"ResourceName", holding.resource},
                       {"DeviceIDs", {{"-1", holding.ids}}},  // -1: no NUMA node
                       {"AllocResp", to_base64(holding.response)}});
  }
  return {{"PodDeviceEntries", entries}, {"RegisteredDevices", checkpoint.registered}};
}

// Throws nlohmann's exceptions; called by parse_checkpoint only.
Result<Checkpoint> read_data(const nlohmann::json& data) {
  Checkpoint checkpoint;
  for (const auto& entry : data.at("PodDeviceEntries")) {
    Holding holding{.pod_uid = entry.at("PodUID"),
                    .container = entry.at("ContainerName"),
                    .resource = entry.at("ResourceName"),
                    .ids = {},
                    .response = {}};
    for (const auto& [numa, ids] : entry.at("DeviceIDs").items()) {
      for (const auto& id : ids) holding.ids.push_back(id.get<std::string>());
    }
    auto response = from_base64(entry.at("AllocResp").get<std::string>());
    if (!response) return fail(Kind::kInvalid, "checkpoint: AllocResp is not base64");
    holding.response = std::move(*response);
    checkpoint.holdings.push_back(std::move(holding));
  }
  checkpoint.registered = data.at("RegisteredDevices").get<decltype(checkpoint.registered)>();
  return checkpoint;
}

}  // namespace

std::string to_json(const Checkpoint& checkpoint) {
  const nlohmann::json data = data_of(checkpoint);
  const auto safe = nlohmann::json::error_handler_t::replace;  // ids come from the plugin: any bytes
  return nlohmann::json({{"Data", data}, {"Checksum", stable_hash(data.dump(-1, ' ', false, safe))}})
             .dump(-1, ' ', false, safe) +
         "\n";
}

Result<Checkpoint> parse_checkpoint(std::string_view text) {
  try {
    const auto whole = nlohmann::json::parse(text);
    const auto& data = whole.at("Data");
    if (whole.at("Checksum").get<std::uint64_t>() != stable_hash(data.dump())) {
      return fail(Kind::kInvalid, "checkpoint is corrupted: its checksum does not match");
    }
    return read_data(data);
  } catch (const nlohmann::json::exception& problem) {
    return fail(Kind::kInvalid, std::string("checkpoint: ") + problem.what());
  }
}

Status write_file_atomically(const std::string& path, std::string_view content) {
  const std::string beside = path + ".new";
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return std::unexpected(error_from_errno(errno, "cannot write", beside));
  while (!content.empty()) {
    const ssize_t done = ::write(fd, content.data(), content.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      const int err = errno;
      ::close(fd);
      return std::unexpected(error_from_errno(err, "cannot write", beside));
    }
    content.remove_prefix(static_cast<std::size_t>(done));
  }
  ::close(fd);
  if (std::rename(beside.c_str(), path.c_str()) != 0) {
    return std::unexpected(error_from_errno(errno, "cannot replace", path));
  }
  return {};
}

Result<std::string> read_whole_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::unexpected(error_from_errno(errno, "cannot read", path));
  std::string content;
  std::array<char, 65536> buffer;
  while (true) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int err = errno;
      ::close(fd);
      return std::unexpected(error_from_errno(err, "cannot read", path));
    }
    if (got == 0) break;
    content.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(fd);
  return content;
}

}  // namespace tranche::sim

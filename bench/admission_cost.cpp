#include "admission_cost.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "os/socket/status_socket.h"
#include "standins/mps/handshake.h"

namespace tranche::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Grant {
  const char* id;
  int mib;
  int hundredths;
};
constexpr Grant kGrants[]{{"0011223344556677", 7188, 500}, {"8899aabbccddeeff", 28754, 2000}};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "bench: %s\n", why.c_str());
  std::exit(1);
}

Json ask(const std::string& root, const std::string& line) {
  const auto answer = os::ask(root + "/mps.sock", line, std::chrono::seconds(5));
  if (!answer) give_up(to_string(answer.error()));
  return Json::parse(*answer, nullptr, false);
}

// Up to the client's place at the server, in microseconds.
double time_of_start(const std::string& endpoint) {
  const auto began = Clock::now();
  const sim::Fd daemon = sim::connect_to(endpoint + "/control");
  sim::Packet packet;
  const bool in = daemon.valid() && sim::await_hello(daemon.get(), 5000) &&
                  sim::introduce(daemon.get(), sim::ConnectionType::kClient) &&
                  sim::receive_packet(daemon.get(), &packet) == sim::Arrived::kPacket && packet.descriptor.valid();
  if (!in) give_up("a client did not come in by " + endpoint);
  const double micros = std::chrono::duration<double, std::micro>(Clock::now() - began).count();
  // To the end: the relay gives a grant whose client breaks off a pause.
  const auto [server, refusal] = sim::join_server(packet.descriptor.get());
  sim::send_packet(daemon.get(), sim::kAcknowledged);
  sim::Message ready;
  if (!server.valid() || !sim::send_message(server.get(), {"init", {}}) ||
      sim::receive_message(server.get(), &ready) != sim::Received::kMessage)
    give_up("the server refused a client of " + endpoint + ": " + refusal);
  return micros;
}

// One client, which has gone when this returns: a process of its own, since a process can use only one share.
double come_in(const std::string& endpoint) {
  int result[2];
  if (::pipe(result) != 0) give_up("no pipe");
  const pid_t client = ::fork();
  if (client == 0) {
    const double micros = time_of_start(endpoint);
    ::_exit(::write(result[1], &micros, sizeof micros) == sizeof micros ? 0 : 1);
  }
  ::close(result[1]);
  double micros = 0;
  const bool read = client > 0 && ::read(result[0], &micros, sizeof micros) == sizeof micros;
  ::close(result[0]);
  if (client > 0) ::waitpid(client, nullptr, 0);
  if (!read) give_up("no client");  // which has reported why
  return micros;
}

Json summary(std::vector<double> micros) {
  std::ranges::sort(micros);
  return {{"p50_us", micros[micros.size() / 2]}, {"p99_us", micros[micros.size() * 99 / 100]}};
}

}  // namespace

Json admission_cost(const Programs& programs, int calls) {
  const std::string root = std::filesystem::path(programs.simulated_node()).parent_path().string() + "/mps";
  const Json pool = ask(root, "status")["pools"][0];
  const std::string id = pool["id"];
  std::vector<std::string> endpoints;
  for (const auto& grant : kGrants) {
    const Json limit{{"uuid", pool["devices"][0]}, {"memoryMiB", grant.mib}, {"threadsHundredths", grant.hundredths}};
    const Json limits = Json::array({limit});
    const Json opened =
        ask(root, Json({{"do", "openEndpoint"}, {"pool", id}, {"grant", grant.id}, {"limits", limits}}).dump());
    if (!opened.value("ok", false)) give_up("no endpoint: " + opened.dump());
    endpoints.push_back(root + "/pools/" + id + "/endpoints/" + grant.id);
  }
  (void)come_in(endpoints[0]);  // starts the server
  std::vector<double> same, other;
  for (int i = 0; i < calls; ++i) same.push_back(come_in(endpoints[0]));
  for (int i = 0; i < calls; ++i) other.push_back(come_in(endpoints[static_cast<std::size_t>(i + 1) % 2]));
  return {{"same", summary(std::move(same))}, {"other", summary(std::move(other))}};
}

}  // namespace tranche::bench

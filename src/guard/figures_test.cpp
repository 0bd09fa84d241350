#include "guard/figures.h"

#include <gmock/gmock.h>

namespace tranche::guard {
namespace figures_test {

using namespace std::chrono_literals;

constexpr MonoTime kStart{100s};

Tenants one_tenant() {
  Tenant tenant;
  tenant.pool = "gpu-0";
  tenant.grants = {"g"};
  tenant.devices["GPU-0"] = {"gpu-0", "nvidia.com/gpu", mib(1000), Percent::whole(25)};
  return {{"g", tenant}};
}

std::map<GrantOnDevice, Limit> limit() {
  return {{{"g", "GPU-0"}, {"gpu-0", "nvidia.com/gpu", mib(1000), {}}}};
}

Device device_with(std::vector<std::uint64_t> memory_mib, bool complete = true) {
  Device device{.uuid = "GPU-0", .pool = "gpu-0", .processes = {}, .clients_read = kStart, .sampled = kStart};
  device.complete = complete;
  for (const auto memory : memory_mib) {
    Process process;
    process.id.pid = static_cast<pid_t>(10 + device.processes.size());
    process.memory = mib(memory);
    process.mps_client = true;
    process.grant = "g";
    device.processes.push_back(process);
  }
  return device;
}

const Figure& after(Figures& figures, const Device& device, MonoTime now = kStart) {
  take_figures(figures, {device}, one_tenant(), limit(), now);
  return figures.at({"g", "GPU-0"});
}

TEST(Figures, AddUpTheProcessesOfATenantAndKeepThePeak) {
  Figures figures;
  EXPECT_EQ(after(figures, device_with({300, 200})).used, mib(500));
  EXPECT_EQ(figures.begin()->second.clients, 2u);
  EXPECT_EQ(after(figures, device_with({})).used, mib(0)) << "measured: nothing";
  EXPECT_EQ(figures.begin()->second.clients, 0u);
  EXPECT_EQ(figures.begin()->second.peak, mib(500));
}

TEST(Figures, AreAbsentWhereTheyCannotBeKnown) {
  Figures figures;
  EXPECT_FALSE(after(figures, device_with({300}, false)).used) << "not all processes are attributed";
  EXPECT_FALSE(figures.begin()->second.peak);
  EXPECT_FALSE(after(figures, device_with({300, 0})).used) << "the driver does not say for one of them";
  EXPECT_EQ(figures.begin()->second.clients, 2u);
  EXPECT_EQ(after(figures, device_with({300})).used, mib(300));
  forget_use(figures);
  EXPECT_FALSE(figures.begin()->second.used);
  EXPECT_EQ(figures.begin()->second.peak, mib(300));
  take_figures(figures, {}, one_tenant(), limit(), kStart);
  EXPECT_FALSE(figures.begin()->second.clients) << "no device, no figures";
}

TEST(Figures, TheTimeOverTheLimitGrowsWhileTheLimitIsExceededAndNoLonger) {
  Figures figures;
  after(figures, device_with({1008}));
  EXPECT_EQ(time_over(figures.begin()->second, kStart + 5s), 0s) << "rounding is no crossing";
  after(figures, device_with({1100}), kStart + 1s);
  EXPECT_EQ(time_over(figures.begin()->second, kStart + 3s), 2s);
  after(figures, device_with({1200}), kStart + 4s);
  after(figures, device_with({900}), kStart + 6s);
  EXPECT_EQ(time_over(figures.begin()->second, kStart + 9s), 5s);
}

TEST(Figures, LeaveWithTheirTenant) {
  Figures figures;
  after(figures, device_with({300}));
  take_figures(figures, {device_with({300})}, {}, {}, kStart);
  EXPECT_TRUE(figures.empty());
}

}  // namespace figures_test
}  // namespace tranche::guard

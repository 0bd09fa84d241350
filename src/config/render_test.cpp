#include "config/resolve.h"

#include <gtest/gtest.h>

#include "config/parse/parse.h"

namespace tranche::config {
namespace render_test {

Config without_places(Config config) {
  for (SharedResource& resource : config.sharing.resources) resource.place = {};
  return config;
}

// Promise: config: A printed configuration reads back as the same.
TEST(RenderTest, ParseReadsBackWhatIsWritten) {
  for (const char* text :
       {"", "flags: {migStrategy: mixed, mpsRoot: \"/a b\\n\", gfd: {sleepInterval: infinite, outputFile: \"\"}}",
        "flags: {gfd: {sleepInterval: -9223372036854775808}}", "imex: {channelIDs: [0], required: true}",
        "sharing: {mps: {renameByDefault: true, failRequestsGreaterThanOne: false, computeMode: leave, proofEvery: "
        "90m, smRounding: "
        "off, endpoint: link, maxClients: 20, processesPerSlot: 3, migDevices: true, stopPatience: "
        "1.5s, frameworkEnvironment: false, resources: [{name: gpu, "
        "replicas: 4}, {name: mig-1g.5gb, replicas: 2}]}}",
        "sharing: {mps: {guard: {interval: 1.5s, memory: observe, foreignProcesses: terminate}, resources: [{name: "
        "gpu, "
        "replicas: 4, guard: {memory: terminate-all}}]}}",
        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 10}]}}",
        "flags: {plugin: {deviceListStrategy: [], nvidiaCTKPath: \"ü\\0\"}}"}) {
    const Config config = without_places(parse(text, "a").config);
    const Parsed again = parse(render_line(config), "b");
    EXPECT_FALSE(has_error(again.problems)) << render_line(config);
    EXPECT_EQ(without_places(again.config), config) << render_line(config);
  }
}

}  // namespace render_test
}  // namespace tranche::config

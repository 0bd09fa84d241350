// The golden files and the malformed configurations once more, by the program as people call it: what the stages give
// is what `tranche plan` prints, and every problem reaches its standard error.
#include "golden/golden.h"

#include "node/bed.h"

namespace tranche::e2e {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class PlanGolden : public NodeBed {
 protected:
  static std::string file(const std::string& name) { return golden::source("tests/golden/" + name); }
  static std::vector<fs::path> files(const fs::path& folder, const std::string& extension) {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == extension) all.push_back(entry.path());
    std::ranges::sort(all);
    return all;
  }
  // "pods.config.inventory.json" → its words, without the last.
  static Strings parts(const fs::path& expected) {
    Strings words;
    for (fs::path rest = expected.filename(); rest.has_extension(); rest = rest.stem())
      words.insert(words.begin(),
                   rest.stem().extension().empty() ? rest.stem().string() : rest.stem().extension().string().substr(1));
    return words;
  }
  Program& plan(const std::string& config, Strings more) {
    more.insert(more.begin(), {tranche(), "plan", "--config", config});
    Program& program = start(std::move(more));
    EXPECT_NE(finish(program), -1);
    return program;
  }
  Strings on(const std::string& inventory) {
    return {"--inventory", file("plan/inventories/" + inventory + ".json"), "--json"};
  }
};

// Promise: plan: The program prints the plans of the golden files.
TEST_F(PlanGolden, PlansAreThoseOfTheProgram) {
  int plans = 0;
  for (const auto& path : files(file("plan/expected"), ".json")) {
    const Strings words = parts(path);  // configuration, inventory
    ASSERT_EQ(words.size(), 2u) << path;
    const Json expected = Json::parse(golden::read(path));
    const std::string config = file("plan/configs/" + words[0] + ".yaml");
    const Program& program = plan(config, on(words[1]));
    for (const auto& problem : expected["problems"]) {
      const auto text = problem.get<std::string>();
      EXPECT_THAT(program.err(), HasSubstr(text.substr(text.find(':')))) << path;
    }
    const bool usable = expected.contains("plan");
    EXPECT_EQ(program.code(), usable ? 0 : 2) << path << program.err();
    if (!usable) continue;
    std::string out = program.out();
    for (auto at = out.find(config); at != std::string::npos; at = out.find(config, at))
      out.replace(at, config.size(), "config.yaml");
    const Json printed = Json::parse(out, nullptr, false);
    for (const auto& [key, value] : expected["plan"].items()) EXPECT_EQ(printed[key], value) << path << " " << key;
    ++plans;
  }
  EXPECT_GE(plans, 20);
}

// Promise: plan/simulate: The program prints the simulations of the golden files.
TEST_F(PlanGolden, SimulationsAreThoseOfTheProgram) {
  int simulations = 0;
  for (const auto& path : files(file("simulate/expected"), ".json")) {
    const Strings words = parts(path);  // pods, configuration, inventory
    if (words.size() != 3) continue;
    const Json expected = Json::parse(golden::read(path));
    Strings more = on(words[2]);
    more.insert(more.end(), {"--pods", file("simulate/pods/" + words[0] + ".yaml")});
    const std::string config = file("simulate/configs/" + words[1] + ".yaml");
    const Program& program = plan(config, more);
    EXPECT_EQ(Json::parse(program.out(), nullptr, false)["simulation"], expected) << path << program.err();
    std::erase(more, "--json");
    const Program& table = plan(config, more);
    EXPECT_EQ(table.code(), program.code());
    EXPECT_THAT(table.out(), HasSubstr("POD ")) << path;
    ++simulations;
  }
  EXPECT_EQ(simulations, 3);
}

// Promise: config: The program prints every problem of every malformed file.
TEST_F(PlanGolden, ProblemsOfMalformedFilesReachTheStandardError) {
  constexpr std::string_view kMark = "#= ";
  int problems = 0;
  for (const auto& path : files(golden::source("tests/malformed"), ".yaml")) {
    std::string text = golden::read(path);
    Strings expected;
    while (text.starts_with(kMark)) {
      const auto end = text.find('\n');
      expected.push_back(text.substr(kMark.size(), end - kMark.size()));
      text.erase(0, end + 1);
    }
    write("malformed.yaml", text);
    const Program& program = plan(in("malformed.yaml"), on("2xT4"));
    for (const auto& problem : expected) EXPECT_THAT(program.err(), HasSubstr(problem)) << path;
    const bool refused = std::ranges::any_of(
        expected, [](const std::string& line) { return line.find(": error: ") != std::string::npos; });
    if (refused) {
      EXPECT_EQ(program.code(), 2) << path;
    }
    problems += static_cast<int>(expected.size());
    drop_ended();
  }
  EXPECT_GE(problems, 100);
}

TEST_F(PlanGolden, TheReferenceOfTheConfigurationIsWhatTheProgramPrints) {
  Program& reference = start({tranche(), "check", "--config-reference"});
  EXPECT_EQ(finish(reference), 0) << reference.err();
  EXPECT_EQ(reference.out(), golden::read(golden::source("docs/reference/configuration.md")));
}

}  // namespace
}  // namespace tranche::e2e

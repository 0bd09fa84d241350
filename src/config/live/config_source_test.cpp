#include "config/live/config_source.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "os/files/scratch_fixture.h"

namespace tranche::config {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string shared_by(int replicas) {
  return "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: " +
         std::to_string(replicas) + "}]}}\n";
}

class ConfigSourceTest : public ::testing::Test {
 protected:
  ConfigSourceTest() : loop_(*os::Loop::open()), path_(scratch_ / "config.yaml") {
    write(shared_by(2));
    source_.emplace(Invocation{.flags = {{"config-file", {path_}}}});
    loop_->after(60s, [this] {
      ADD_FAILURE() << "the source reports no change";
      loop_->stop();
    });
    source_->follow(*loop_, [this] {
      seen_.push_back(source_->view().last_good ? "refused" : std::to_string(replicas()));
      loop_->stop();
    });
  }

  void write(const std::string& text) { std::ofstream(path_) << text; }
  void reload(const std::string& text) {
    write(text);
    source_->reload();
  }
  std::uint32_t replicas() const { return source_->view().config.sharing.resources.at(0).replicas; }

  os::Scratch scratch_;
  std::unique_ptr<os::Loop> loop_;
  std::string path_;
  std::optional<ConfigSource> source_;
  std::vector<std::string> seen_;
};

TEST_F(ConfigSourceTest, OfTwoContentsThatAreParsedTheNewestIsInEffectAndTheOlderOneNeverWas) {
  reload(shared_by(3));
  reload(shared_by(4));
  EXPECT_EQ(replicas(), 2u) << "the loop does not wait for the parser";
  loop_->run();
  EXPECT_THAT(seen_, ElementsAre("4"));
}

TEST_F(ConfigSourceTest, AContentInTheParserIsDroppedWhenTheFileCannotBeReadAnyMore) {
  reload(shared_by(3));
  std::filesystem::remove(path_);
  source_->reload();
  EXPECT_THAT(seen_, ElementsAre("refused"));
  loop_->run();  // returns at once: the change has stopped it
  // The parser reads one content after the other, so the dropped one is over before this one.
  reload(shared_by(5));
  loop_->run();
  EXPECT_THAT(seen_, ElementsAre("refused", "5"));
}

TEST_F(ConfigSourceTest, AFileOfMoreThanOneMebibyteIsRefusedAndTheLastOneStaysInEffect) {
  reload(shared_by(3) + std::string(1 << 20, '#'));
  EXPECT_EQ(replicas(), 2u);
  ASSERT_EQ(source_->view().problems.size(), 1u);
  EXPECT_THAT(to_string(source_->view().problems[0]), HasSubstr("at most 1 MiB"));
}

TEST_F(ConfigSourceTest, ASourceCanBeDestroyedWhileAContentIsParsed) {
  reload(shared_by(3));
  source_.reset();
  loop_->after(1ms, [this] { loop_->stop(); });
  loop_->run();
  EXPECT_THAT(seen_, ElementsAre());
}

}  // namespace
}  // namespace tranche::config

#include "config/live/config_source.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "os/files/scratch_fixture.h"

namespace tranche::config {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;

void write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST(NamedConfigsTest, OfAFolderAreItsFilesAndLinksToFiles) {
  const os::Scratch scratch;
  write(scratch / "b", "version: v1\n");
  write(scratch / "..hidden", "x");
  fs::create_directory(scratch / "folder");
  fs::create_symlink("b", scratch / "a");
  fs::create_symlink("folder", scratch / "link-to-folder");
  fs::create_symlink("nowhere", scratch / "dangling");
  const auto found = read_config_dir(scratch.path());
  EXPECT_FALSE(found.why);
  EXPECT_THAT(found.texts, ElementsAre(Key("a"), Key("b"), Key("dangling")));
  EXPECT_EQ(found.texts.at("a"), "version: v1\n");
  EXPECT_FALSE(found.texts.at("dangling")) << "with its reason";
  EXPECT_EQ(found.sources.at("b"), scratch / "b");
}

TEST(NamedConfigsTest, OfAMountedConfigMapAreOfOneVersion) {
  const os::Scratch scratch;
  fs::create_directory(scratch / "..2026");
  write(scratch / "..2026/new", "version: v1\n");
  fs::create_symlink("..2026", scratch / "..data");
  fs::create_symlink("..data/old", scratch / "old");  // kubelet has neither removed it nor added the new one yet
  EXPECT_THAT(read_config_dir(scratch.path()).texts, ElementsAre(Key("new")));
}

TEST(NamedConfigsTest, OfAFolderThatIsNotThereAreUnknownWithTheReason) {
  const auto found = read_config_dir("/no/such/folder");
  EXPECT_TRUE(found.why);
  EXPECT_THAT(found.texts, IsEmpty());
}

TEST(NamedConfigsTest, OfAConfigMapAreItsKeysAndTheirPlacesNameIt) {
  const auto found = configs_of_map("gpu/configs", {{"a", "x"}, {"b", "y"}});
  EXPECT_THAT(found.texts, ElementsAre(Key("a"), Key("b")));
  EXPECT_EQ(found.where, "ConfigMap gpu/configs");
  EXPECT_EQ(found.sources.at("b"), "ConfigMap gpu/configs[b]");
}

}  // namespace
}  // namespace tranche::config

#include "kube/client/kube_client.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "os/files/scratch_fixture.h"

namespace tranche::kube {
namespace {

namespace fs = std::filesystem;

void write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST(Token, IsReadAgainWhenTheLinkToItLeadsElsewhereAsInAMountedVolume) {
  os::Scratch scratch;
  fs::create_directories(scratch / "1");
  fs::create_directories(scratch / "2");
  write(scratch / "1/token", "first\n");
  write(scratch / "2/token", "other\n");
  fs::create_symlink("1", scratch / "data");
  EXPECT_EQ(bearer_token(scratch / "data/token", ""), "first");
  fs::create_symlink("2", scratch / "new");
  fs::rename(scratch / "new", scratch / "data");
  EXPECT_EQ(bearer_token(scratch / "data/token", ""), "other");
}

TEST(Token, AFixedOneNeedsNoFileAndNoneIsNone) {
  EXPECT_EQ(bearer_token("", "abc"), "abc");
  EXPECT_EQ(bearer_token("", ""), "");
}

TEST(Token, AFileThatIsMissingEmptyOrBreaksTheHeaderIsAnErrorThatNamesTheFileAndNotItsContent) {
  os::Scratch scratch;
  EXPECT_EQ(bearer_token(scratch / "none", "").error().where, scratch / "none");
  for (const char* text : {"", "\n", "secret\r\nX-Evil: 1", "secret two"}) {
    write(scratch / "token", text);
    const auto got = bearer_token(scratch / "token", "");
    ASSERT_FALSE(got) << text;
    EXPECT_EQ(to_string(got.error()).find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace tranche::kube

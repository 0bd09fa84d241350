#include "kube/client/kube_client.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "os/files/scratch.h"

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
  Token token(scratch / "data/token", "");
  EXPECT_EQ(token.get(), "first");
  fs::create_symlink("2", scratch / "new");
  fs::rename(scratch / "new", scratch / "data");
  EXPECT_EQ(token.get(), "other");
}

TEST(Token, AFixedOneNeedsNoFileAndNoneIsNone) {
  EXPECT_EQ(Token("", "abc").get(), "abc");
  EXPECT_EQ(Token("", "").get(), "");
}

TEST(Token, AFileThatIsMissingEmptyOrBreaksTheHeaderIsAnErrorThatNamesTheFileAndNotItsContent) {
  os::Scratch scratch;
  EXPECT_EQ(Token(scratch / "none", "").get().error().where, scratch / "none");
  for (const char* text : {"", "\n", "secret\r\nX-Evil: 1", "secret two"}) {
    write(scratch / "token", text);
    const auto got = Token(scratch / "token", "").get();
    ASSERT_FALSE(got) << text;
    EXPECT_EQ(to_string(got.error()).find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace tranche::kube

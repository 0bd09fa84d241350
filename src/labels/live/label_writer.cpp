#include "labels/live/label_writer.h"

#include <optional>

#include "base/words.h"
#include "os/files/files.h"

namespace tranche::agent {
namespace {

constexpr const char* kTheirTemporaryFolder = "gfd-tmp";  // left beside the file by older versions of NVIDIA's program

class Printer final : public LabelWriter {
 public:
  explicit Printer(std::function<void(const label::Labels&)> print) : print_(std::move(print)) {}
  void write(const label::Labels& labels, Done done) override {
    const bool changed = last_ != labels;
    if (changed) print_(labels);
    last_ = labels;
    done(Written{.changed = changed, .foreign = {}, .remarks = {}});
  }

 private:
  std::function<void(const label::Labels&)> print_;
  std::optional<label::Labels> last_;
};

class File final : public LabelWriter {
 public:
  explicit File(const std::string& path) {
    const auto slash = path.rfind('/');
    folder_ = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
    name_ = slash == std::string::npos ? path : path.substr(slash + 1);
  }
  void write(const label::Labels& labels, Done done) override { done(put(label::file_text(labels))); }
  void clean_up() override {
    const auto folder = host::Dir::open(folder_);
    if (!folder) return;
    (void)folder->remove(name_);
    (void)folder->remove_tree(kTheirTemporaryFolder);
  }

 private:
  Result<Written> put(const std::string& text) {
    TRY(const auto folder, host::Dir::open(folder_));
    const auto there = folder.read(name_);
    if (there && *there == text) return Written{};
    TRY_STATUS(folder.write_atomically(name_, text));
    return Written{.changed = true, .foreign = {}, .remarks = {}};
  }
  std::string folder_;
  std::string name_;
};

}  // namespace

std::string_view to_string(LabelOutput output) {
  static constexpr Word<LabelOutput> kWords[] = {{LabelOutput::kNone, "none"},
                                                 {LabelOutput::kStdout, "stdout"},
                                                 {LabelOutput::kFile, "file"},
                                                 {LabelOutput::kNodeFeature, "nodefeature"},
                                                 {LabelOutput::kNode, "node"}};
  return word_of(kWords, output);
}

std::unique_ptr<LabelWriter> label_printer(std::function<void(const label::Labels&)> print) {
  return std::make_unique<Printer>(std::move(print));
}

std::unique_ptr<LabelWriter> label_file(const std::string& path) {
  return std::make_unique<File>(path);
}

}  // namespace tranche::agent

#include "cdi/live/write_specs.h"

#include <algorithm>
#include <map>

#include "os/files/files.h"

namespace tranche::cdi {
namespace {

// A file of the driver can have any name, and the JSON of a name that is not UTF-8 names no file.
Result<std::string> text_of(const Spec& spec, const std::string& name) {
  constexpr std::string_view kReplaced = "\uFFFD";
  std::string text = render(spec);
  if (text.find(kReplaced) != std::string::npos)
    return fail(Kind::kInvalid, "a path or name in the CDI spec is not valid UTF-8", name);
  return text;
}

Result<os::Dir> made(const std::string& directory) {
  auto dir = os::Dir::create(directory, 0755);
  if (!dir) return std::unexpected(within(std::move(dir).error(), "cannot use the directory for CDI specs"));
  return dir;
}

Result<bool> put(const os::Dir& dir, const std::string& name, const std::string& text) {
  if (const auto old = dir.read(name); old && *old == text) return false;
  TRY_STATUS(dir.write_atomically(name, text, 0644));
  return true;
}

}  // namespace

Result<bool> write_spec(const std::string& directory, const std::string& name, const Spec& spec) {
  TRY(const auto text, text_of(spec, name));
  TRY(const auto dir, made(directory));
  return put(dir, name, text);
}

Status remove_spec(const std::string& directory, const std::string& name) {
  const auto dir = os::Dir::open(directory);
  if (!dir && dir.error().kind == Kind::kNotFound) return {};
  if (!dir) return std::unexpected(dir.error());
  return dir->remove(name);
}

Result<WrittenSpecs> write_specs(const std::string& directory, std::span<const Spec> specs) {
  std::map<std::string, std::string> files;  // all of them, before the first is written
  for (const Spec& spec : specs) {
    TRY(files[file_name(spec.cls)], text_of(spec, file_name(spec.cls)));
  }
  WrittenSpecs done;
  auto dir = os::Dir::open(directory);
  if (!dir && files.empty()) return done;  // nothing to write, nothing to remove
  if (!dir) dir = made(directory);
  if (!dir) return std::unexpected(std::move(dir).error());
  // Of a program that was killed while it wrote.
  os::remove_temporaries(*dir, [](std::string_view name) {
    return std::ranges::any_of(kClasses, [name](const char* cls) { return name == file_name(cls); });
  });
  for (const auto& [name, text] : files) {
    TRY(const bool changed, put(*dir, name, text));
    if (changed) done.written.push_back(name);
  }
  for (const char* cls : kClasses) {
    const std::string name = file_name(cls);
    if (files.contains(name) || !dir->exists(name)) continue;
    TRY_STATUS(dir->remove(name));
    done.removed.push_back(name);
  }
  return done;
}

}  // namespace tranche::cdi

#include "gpu/mig/state.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tranche::mig {
namespace {

constexpr std::size_t kMostDigits = 6;

// "<number><letters>" taken from the front of `text`.
std::optional<std::uint32_t> take_number(std::string_view& text, std::string_view letters) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || digits > kMostDigits || !text.substr(digits).starts_with(letters)) return std::nullopt;
  const auto number = parse_unsigned(text.substr(0, digits));
  if (!number || *number == 0) return std::nullopt;
  text.remove_prefix(digits + letters.size());
  return static_cast<std::uint32_t>(*number);
}

// "+me", "+me.all", "+gfx-me", "+me,gfx": signs, each followed by names that begin with a letter.
bool well_formed_attributes(std::string_view text) {
  if (!text.empty() && text.front() != '+' && text.front() != '-') return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_sign = std::string_view("+-,.").contains(text[i]);
    const char first = is_sign && i + 1 < text.size() ? text[i + 1] : 'a';  // of a name
    if ((!is_sign && !is_alnum(text[i])) || !is_alnum(first) || is_digit(first)) return false;
  }
  return text.empty() || is_alnum(text.back());
}

}  // namespace

std::string to_string(const Placement& placement) {
  if (placement.size == 1) return fmt::format("slice {}", placement.start);
  return fmt::format("slices {}-{}", placement.start, placement.start + placement.size - 1);
}

std::string ProfileName::gpu_instance() const {
  return fmt::format("{}g.{}gb{}", slices, gigabytes, attributes);
}

std::optional<ProfileName> parse_profile_name(std::string_view text) {
  ProfileName name;
  std::string_view rest = text;
  const auto compute = take_number(rest, "c.");
  const auto slices = take_number(rest, "g.");
  const auto gigabytes = take_number(rest, "gb");
  if (!slices || !gigabytes || !well_formed_attributes(rest)) return std::nullopt;
  if (compute && *compute > *slices) return std::nullopt;
  name.compute_slices = compute.value_or(*slices);
  name.slices = *slices;
  name.gigabytes = *gigabytes;
  name.attributes = rest;
  return name;
}

std::string to_string(const ProfileName& name) {
  return (name.whole() ? "" : fmt::format("{}c.", name.compute_slices)) + name.gpu_instance();
}

const Profile* find_profile(const std::vector<Profile>& profiles, std::string_view gpu_instance_name) {
  const auto found = std::ranges::find(profiles, gpu_instance_name, &Profile::name);
  return found == profiles.end() ? nullptr : &*found;
}

const Profile* find_profile(const std::vector<Profile>& profiles, std::uint32_t id) {
  const auto found = std::ranges::find(profiles, id, &Profile::id);
  return found == profiles.end() ? nullptr : &*found;
}

std::string list_of(const std::vector<Profile>& profiles) {
  return join(profiles, ", ", &Profile::name);
}

const Profile* resolve_profile(const std::vector<Profile>& profiles, const ProfileName& name) {
  if (const Profile* exact = find_profile(profiles, name.gpu_instance())) return exact;
  const Profile* near = nullptr;
  for (const Profile& profile : profiles) {
    const auto parsed = parse_profile_name(profile.name);
    if (!parsed || parsed->slices != name.slices || parsed->attributes != name.attributes) continue;
    const auto low = std::min(parsed->gigabytes, name.gigabytes), high = std::max(parsed->gigabytes, name.gigabytes);
    if (high - low > 1) continue;
    if (near != nullptr) return nullptr;
    near = &profile;
  }
  return near;
}

std::string profile_name(const std::vector<Profile>& profiles, std::uint32_t id) {
  const Profile* profile = find_profile(profiles, id);
  return profile == nullptr ? fmt::format("profile {}", id) : profile->name;
}

std::string compute_name(const std::vector<Profile>& profiles, std::uint32_t id, std::uint32_t slices) {
  const Profile* profile = find_profile(profiles, id);
  const bool whole = profile == nullptr || slices >= profile->slices;
  return (whole ? "" : fmt::format("{}c.", slices)) + profile_name(profiles, id);
}

std::vector<Placement> compute_placements(std::uint32_t of, std::uint32_t slices) {
  std::vector<Placement> placements;
  // Two slices lie at an even start, three and four at a multiple of four; one lies anywhere.
  const std::uint32_t step = slices <= 1 ? 1 : slices == 2 ? 2 : 4;
  if (slices == 0) return placements;
  for (std::uint32_t start = 0; start + slices <= of; start += step) placements.push_back({start, slices});
  return placements;
}

Holder pod_holder(const std::string& pod_namespace, const std::string& pod, const std::string& container) {
  const auto who = fmt::format("pod {}/{} (container {})", pod_namespace, pod, container);
  return {pod.empty() ? "a container that kubelet does not list yet" : who, 0, pod_namespace, pod, container};
}

std::string list_of(const std::vector<Holder>& holders) {
  return holders.empty() ? "a process that the driver does not name" : join(holders, ", ", &Holder::who);
}

bool GpuInstance::busy() const {
  return held || std::ranges::any_of(compute, &ComputeInstance::held);
}

std::string to_string(const Step& step) {
  switch (step.what) {
    case Step::What::kDestroyCompute:
      return fmt::format("destroy compute instance {} ({}) of GPU instance {}", step.compute.value_or(0), step.profile,
                         step.instance.value_or(0));
    case Step::What::kDestroyInstance:
      return fmt::format("destroy GPU instance {} ({} at {})", step.instance.value_or(0), step.profile,
                         to_string(step.placement));
    case Step::What::kModeOn:
      return "enable MIG mode";
    case Step::What::kModeOff:
      return "disable MIG mode";
    case Step::What::kReset:
      return "reset the GPU";
    case Step::What::kCreateInstance:
      return fmt::format("create {} at {}", step.profile, to_string(step.placement));
    case Step::What::kCreateCompute:
      return fmt::format("create compute instance {} in the GPU instance at {}", step.profile,
                         to_string(step.placement));
  }
  return "unknown";
}

bool destroys(const Step& step) {
  return step.what != Step::What::kCreateInstance && step.what != Step::What::kCreateCompute;
}

void add_users(GpuState& gpu, const Users& users) {
  if (!users) return;
  const auto add = [](const std::vector<Holder>& more, std::vector<Holder>& holders) {
    for (const Holder& one : more)
      if (std::ranges::find(holders, one) == holders.end()) holders.push_back(one);
  };
  const auto of_all = users(gpu.uuid);
  add(of_all, gpu.holders);
  for (GpuInstance& instance : gpu.instances) {
    add(of_all, instance.holders);  // who has the whole GPU has its instances
    instance.held = !instance.holders.empty();
    for (ComputeInstance& compute : instance.compute) {
      const auto by = compute.uuid.empty() ? std::vector<Holder>() : users(compute.uuid);
      compute.held = !by.empty();
      add(by, instance.holders);
    }
  }
}

}  // namespace tranche::mig

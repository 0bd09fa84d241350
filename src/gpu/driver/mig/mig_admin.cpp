#include "gpu/driver/mig/mig_admin.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "gpu/driver/library.h"
#include "gpu/driver/mig/mig.h"
#include "gpu/driver/processes.h"
#include "gpu/models/models.h"

namespace tranche::gpu {
namespace {

using nvml::Device;

class Admin final : public MigAdmin {
 public:
  Admin(std::unique_ptr<nvml::Library> library, MigCare care)
      : library_(std::move(library)), f_(library_->functions()), care_(std::move(care)) {}

  Result<std::vector<mig::GpuState>> read(std::vector<std::string>& silent) override {
    std::uint32_t count = 0;
    TRY_STATUS(library_->check(nvml::call(f_.device_count, &count), "cannot count the GPUs", "nvmlDeviceGetCount"));
    std::vector<mig::GpuState> gpus;
    for (std::uint32_t index = 0; index < count; ++index) {
      if (care_.pass_over.contains(index)) continue;
      if (care_.on_reading) care_.on_reading(index);
      Device device = nullptr;
      const auto found = library_->check(nvml::call(f_.device_by_index, index, &device), "it does not answer",
                                         "nvmlDeviceGetHandleByIndex");
      auto gpu = found ? read_device(device, index) : std::unexpected(found.error());
      if (gpu)
        gpus.push_back(*std::move(gpu));
      else
        silent.push_back(to_string(within(std::move(gpu).error(), "GPU " + std::to_string(index))));
    }
    return gpus;
  }

  Result<mig::GpuState> read(const std::string& gpu_uuid) override {
    TRY(const Found found, find(gpu_uuid));
    return read_device(found.device, found.index);
  }

  Status take(const std::string& gpu_uuid, const mig::Step& step) override {
    using What = mig::Step::What;
    TRY(const Found found, find(gpu_uuid));
    nvml::GpuInstance instance = nullptr, made = nullptr;
    if (step.instance)
      TRY_STATUS(library_->check(nvml::call(f_.gpu_instance_by_id, found.device, *step.instance, &instance),
                                 "cannot find the GPU instance", "nvmlDeviceGetGpuInstanceById"));
    switch (step.what) {
      case What::kModeOn:
      case What::kModeOff:
        return set_mode(found.device, step.what == What::kModeOn);
      case What::kCreateInstance:
        return library_->check(
            nvml::call(f_.create_gpu_instance, found.device, step.profile_id, &step.placement, &made),
            "cannot create a GPU instance", "nvmlDeviceCreateGpuInstanceWithPlacement");
      case What::kCreateCompute:
        return create_compute_instance(instance, step.compute_placement.size);
      case What::kDestroyCompute:
        return destroy_compute_instance(instance, step.compute.value_or(0));
      case What::kDestroyInstance:
        return library_->check(nvml::call(f_.destroy_gpu_instance, instance), "cannot destroy the GPU instance",
                               "nvmlGpuInstanceDestroy");
      case What::kReset:
        break;
    }
    return {};
  }

 private:
  struct Found {
    Device device = nullptr;
    std::uint32_t index = 0;
  };

  // By index: the look-up by UUID fails for all GPUs while one of them is lost.
  Result<Found> find(const std::string& gpu_uuid) const {
    std::uint32_t count = 0;
    TRY_STATUS(library_->check(nvml::call(f_.device_count, &count), "cannot count the GPUs", "nvmlDeviceGetCount"));
    for (std::uint32_t index = 0; index < count; ++index) {
      if (care_.pass_over.contains(index)) continue;
      Found found{nullptr, index};
      std::string uuid;
      if (nvml::call(f_.device_by_index, index, &found.device) != nvml::Return::kSuccess) continue;
      if (nvml::read_text(f_.uuid, found.device, uuid) == nvml::Return::kSuccess && gpu_uuid == uuid) return found;
    }
    return fail(Kind::kNotFound, "no GPU " + in_quotes(gpu_uuid) + " answers on this node", gpu_uuid);
  }

  Status set_mode(Device device, bool on) const {
    nvml::Return activation = nvml::Return::kSuccess;
    nvml::Return code = nvml::call(f_.set_mig_mode, device, on ? 1u : 0u, &activation);
    const bool accepted = code == nvml::Return::kSuccess;
    if (accepted) code = activation;  // a pass-through VM may return the activation's codes by itself
    if (code == nvml::Return::kResetRequired) return {};
    if (code == nvml::Return::kInUse)
      return fail(Kind::kConflict, "the driver reports that the GPU is in use", "", static_cast<int>(code));
    return library_->check(code,
                           accepted ? "the driver could not put the MIG mode in effect" : "cannot change the MIG mode",
                           "nvmlDeviceSetMigMode");
  }

  Status create_compute_instance(nvml::GpuInstance parent, std::uint32_t slices) const {
    std::optional<std::uint32_t> profile;
    each_compute_profile(parent, [&](std::uint32_t, const nvml::ComputeInstanceProfileInfo& info) {
      if (info.slice_count == slices && !profile) profile = info.id;
    });
    if (!profile)
      return fail(Kind::kUnsupported,
                  "the GPU instance has no compute instance profile of " + std::to_string(slices) + " slices",
                  "nvmlGpuInstanceGetComputeInstanceProfileInfo");
    nvml::ComputeInstance made = nullptr;
    return library_->check(nvml::call(f_.create_compute_instance, parent, *profile, &made),
                           "cannot create a compute instance", "nvmlGpuInstanceCreateComputeInstance");
  }

  Status destroy_compute_instance(nvml::GpuInstance parent, std::uint32_t id) const {
    nvml::ComputeInstance handle = nullptr;
    TRY_STATUS(library_->check(nvml::call(f_.compute_instance_by_id, parent, id, &handle),
                               "cannot find the compute instance", "nvmlGpuInstanceGetComputeInstanceById"));
    return library_->check(nvml::call(f_.destroy_compute_instance, handle), "cannot destroy the compute instance",
                           "nvmlComputeInstanceDestroy");
  }

  Result<mig::GpuState> read_device(Device device, std::uint32_t index) const {
    mig::GpuState gpu;
    gpu.index = index;
    TRY_STATUS(library_->check(nvml::read_text(f_.uuid, device, gpu.uuid), "it does not answer", "nvmlDeviceGetUUID"));
    nvml::read_text(f_.name, device, gpu.name);
    const auto pci = nvml::reported(f_.pci_info, device).value_or(nvml::PciInfo{});
    gpu.pci_device_id = pci.pci_device_id;
    gpu.pci_subsystem_id = pci.pci_subsystem_id;
    std::int32_t major = 0, minor = 0;
    if (nvml::call(f_.compute_capability, device, &major, &minor) == nvml::Return::kSuccess)
      gpu.compute_capability = {major, minor};
    gpu.memory = {nvml::reported(f_.memory, device).value_or(nvml::Memory{}).total};

    std::uint32_t current = 0, pending = 0;
    const nvml::Return mode = nvml::call(f_.mig_mode, device, &current, &pending);
    if (mode == nvml::Return::kNotSupported) return gpu;
    TRY_STATUS(library_->check(mode, "cannot read the MIG mode", "nvmlDeviceGetMigMode"));
    gpu.capable = true;
    gpu.enabled = current == 1;
    gpu.pending = pending == 1;
    read_profiles(device, gpu);
    if (gpu.enabled) {
      TRY_STATUS(read_instances(device, gpu));
    }
    read_processes(device, gpu);
    complete_profiles(gpu);
    return gpu;
  }

  void read_profiles(Device device, mig::GpuState& gpu) const {
    nvml::each_profile(f_, device, [&](std::uint32_t number, const nvml::GpuInstanceProfileInfo& info) {
      mig::Profile profile;
      profile.id = info.id;
      profile.name = nvml::profile_text(info.slice_count, info.slice_count, info.memory_size_mib, gpu.memory.value,
                                        nvml::profile_suffix(number));
      profile.slices = info.slice_count;
      profile.memory_mib = info.memory_size_mib;
      profile.sm_count = info.multiprocessor_count;
      profile.at_most = info.instance_count;
      profile.engines = {info.copy_engine_count, info.decoder_count, info.encoder_count, info.jpeg_count,
                         info.ofa_count};
      profile.number = number;
      std::array<nvml::GpuInstancePlacement, nvml::kMostPlacements> places{};
      auto count = static_cast<std::uint32_t>(places.size());
      if (nvml::call(f_.gpu_instance_placements, device, info.id, places.data(), &count) == nvml::Return::kSuccess)
        profile.placements.assign(places.begin(), places.begin() + std::min(count, nvml::kMostPlacements));
      std::ranges::sort(profile.placements);
      gpu.profiles.push_back(std::move(profile));
      return false;
    });
  }

  // Reads instances of all profile ids: MIG device handles show only instances that have a compute instance.
  Status read_instances(Device device, mig::GpuState& gpu) const {
    const auto uuids = uuids_of(device);
    for (const mig::Profile& profile : gpu.profiles) {
      std::array<nvml::GpuInstance, nvml::kMostInstances> handles{};
      auto count = static_cast<std::uint32_t>(handles.size());
      TRY_STATUS(library_->check(nvml::call(f_.gpu_instances, device, profile.id, handles.data(), &count),
                                 "cannot list the GPU instances", "nvmlDeviceGetGpuInstances"));
      for (std::uint32_t i = 0; i < std::min(count, nvml::kMostInstances); ++i) {
        nvml::GpuInstanceInfo info{};
        TRY_STATUS(library_->check(nvml::call(f_.gpu_instance_info, handles[i], &info), "cannot read a GPU instance",
                                   "nvmlGpuInstanceGetInfo"));
        mig::GpuInstance instance{.id = info.id, .profile_id = info.profile_id, .placement = info.placement};
        TRY(instance.compute, compute_of(handles[i], info.id, uuids));
        gpu.instances.push_back(std::move(instance));
      }
    }
    std::ranges::sort(gpu.instances, {}, [](const mig::GpuInstance& one) { return std::pair(one.placement, one.id); });
    return {};
  }

  using Uuids = std::map<std::pair<std::uint32_t, std::uint32_t>, std::string>;  // (GPU instance, compute instance)
  Uuids uuids_of(Device device) const {
    Uuids uuids;
    const std::uint32_t most = nvml::reported(f_.max_mig_devices, device).value_or(0);
    for (std::uint32_t slot = 0; slot < most; ++slot) {
      Device mig = nullptr;
      if (nvml::call(f_.mig_device_by_index, device, slot, &mig) != nvml::Return::kSuccess) continue;
      const auto gi = nvml::reported(f_.gpu_instance_id, mig), ci = nvml::reported(f_.compute_instance_id, mig);
      if (std::string uuid; gi && ci && nvml::read_text(f_.uuid, mig, uuid) == nvml::Return::kSuccess)
        uuids[{*gi, *ci}] = uuid;
    }
    return uuids;
  }

  template <class Take>
  void each_compute_profile(nvml::GpuInstance parent, Take take) const {
    for (std::uint32_t number = 0; number < nvml::kComputeInstanceProfiles; ++number) {
      nvml::ComputeInstanceProfileInfo info{};
      const nvml::Return code = nvml::call(f_.compute_instance_profile, parent, number, nvml::kSharedEngines, &info);
      if (code == nvml::Return::kInvalidArgument) break;
      if (code == nvml::Return::kSuccess) take(number, info);
    }
  }

  Result<std::vector<mig::ComputeInstance>> compute_of(nvml::GpuInstance parent, std::uint32_t gpu_instance,
                                                       const Uuids& uuids) const {
    struct Kind {
      std::uint32_t id, slices, number;
    };
    std::vector<Kind> profiles;
    each_compute_profile(parent, [&](std::uint32_t number, const nvml::ComputeInstanceProfileInfo& info) {
      if (std::ranges::find(profiles, info.id, &Kind::id) == profiles.end())
        profiles.push_back({info.id, info.slice_count, number});
    });
    std::vector<mig::ComputeInstance> found;
    for (const auto& [id, slices, number] : profiles) {
      std::array<nvml::ComputeInstance, nvml::kMostInstances> handles{};
      auto count = static_cast<std::uint32_t>(handles.size());
      TRY_STATUS(library_->check(nvml::call(f_.compute_instances, parent, id, handles.data(), &count),
                                 "cannot list the compute instances", "nvmlGpuInstanceGetComputeInstances"));
      for (std::uint32_t i = 0; i < std::min(count, nvml::kMostInstances); ++i) {
        nvml::ComputeInstanceInfo info{};
        TRY_STATUS(library_->check(nvml::call(f_.compute_instance_info, handles[i], &info),
                                   "cannot read a compute instance", "nvmlComputeInstanceGetInfo"));
        const auto uuid = uuids.find({gpu_instance, info.id});
        found.push_back({.id = info.id,
                         .placement = {info.placement.start, slices},
                         .uuid = uuid == uuids.end() ? "" : uuid->second,
                         .number = number});
      }
    }
    std::ranges::sort(found, {},
                      [](const mig::ComputeInstance& one) { return std::pair(one.placement.start, one.id); });
    return found;
  }

  // An instance with processes cannot be destroyed. If the driver does not list them, it returns IN_USE itself.
  void read_processes(Device device, mig::GpuState& gpu) const {
    for (const nvml::ProcessInfo& entry : nvml::list_processes(f_.compute_processes, device).entries) {
      const auto inside = std::ranges::find(gpu.instances, entry.gpu_instance, &mig::GpuInstance::id);
      auto& holders = inside == gpu.instances.end() ? gpu.holders : inside->holders;
      if (inside != gpu.instances.end()) inside->held = true;
      if (std::ranges::find(holders, entry.pid, &mig::Holder::pid) == holders.end())
        holders.push_back({"process " + std::to_string(entry.pid), entry.pid});
    }
  }

  std::unique_ptr<nvml::Library> library_;
  const nvml::Functions& f_;
  MigCare care_;
};

}  // namespace

Result<std::unique_ptr<MigAdmin>> MigAdmin::open(const NvmlSettings& settings, MigCare care) {
  TRY(std::unique_ptr<nvml::Library> library, nvml::Library::open(settings.driver_root));
  const nvml::Functions& f = library->functions();
  if (f.mig_mode == nullptr || f.gpu_instances == nullptr || f.create_gpu_instance == nullptr ||
      f.compute_instances == nullptr)
    return fail(Kind::kUnsupported,
                "this driver's management library lacks the calls that MIG needs; install driver 470 or newer",
                library->path());
  return std::make_unique<Admin>(std::move(library), std::move(care));
}

}  // namespace tranche::gpu

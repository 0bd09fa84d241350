// Public functions of the driver library that this stand-in does not simulate. They exist, because clients that bind
// lazily crash on a missing symbol, and return "not supported" like the real ones on hardware without the feature. They
// have no parameters: the calling convention lets a callee ignore its arguments.
#include "session.h"

namespace tranche::sim::nvml {
namespace {

Return not_simulated(std::string_view name) {
  const Call call(name);
  return call.refusal() != kSuccess ? call.refusal() : kNotSupported;
}

}  // namespace

#define NOT_SIMULATED(name)      \
  NVML Return name() {           \
    return not_simulated(#name); \
  }
// NOT_SIMULATED of each name of a list. EXPAND has the preprocessor read it often enough for 256 names.
#define PARENTHESES ()
#define EXPAND(...) EXPAND3(EXPAND3(EXPAND3(EXPAND3(__VA_ARGS__))))
#define EXPAND3(...) EXPAND2(EXPAND2(EXPAND2(EXPAND2(__VA_ARGS__))))
#define EXPAND2(...) EXPAND1(EXPAND1(EXPAND1(EXPAND1(__VA_ARGS__))))
#define EXPAND1(...) EXPAND0(EXPAND0(EXPAND0(EXPAND0(__VA_ARGS__))))
#define EXPAND0(...) __VA_ARGS__
#define NONE_SIMULATED(...) EXPAND(EACH(__VA_ARGS__))
#define EACH(name, ...) NOT_SIMULATED(name) __VA_OPT__(EACH_AGAIN PARENTHESES(__VA_ARGS__))
#define EACH_AGAIN() EACH

// System and units.
NONE_SIMULATED(nvmlSystemEventSetCreate, nvmlSystemEventSetFree, nvmlSystemEventSetWait, nvmlSystemGetCPER_v1,
               nvmlSystemGetConfComputeCapabilities, nvmlSystemGetConfComputeGpusReadyState,
               nvmlSystemGetConfComputeKeyRotationThresholdInfo, nvmlSystemGetHicVersion, nvmlSystemGetNvlinkBwMode,
               nvmlSystemRegisterEvents, nvmlSystemSetConfComputeGpusReadyState,
               nvmlSystemSetConfComputeKeyRotationThresholdInfo, nvmlSystemSetNvlinkBwMode, nvmlUnitGetDevices,
               nvmlUnitGetFanSpeedInfo, nvmlUnitGetHandleByIndex, nvmlUnitGetLedState, nvmlUnitGetPsuInfo,
               nvmlUnitGetTemperature, nvmlUnitGetUnitInfo, nvmlUnitSetLedState)

// What no program asks that runs on a simulated node.
NONE_SIMULATED(nvmlDeviceGetAccountingBufferSize, nvmlDeviceGetAccountingMode, nvmlDeviceGetBAR1MemoryInfo,
               nvmlDeviceGetBoardId, nvmlDeviceGetBusType, nvmlDeviceGetC2cModeInfoV, nvmlDeviceGetCapabilities,
               nvmlDeviceGetClock, nvmlDeviceGetCurrPcieLinkGeneration, nvmlDeviceGetCurrPcieLinkWidth,
               nvmlDeviceGetDecoderUtilization, nvmlDeviceGetDefaultEccMode, nvmlDeviceGetDisplayActive,
               nvmlDeviceGetDisplayMode, nvmlDeviceGetEccMode, nvmlDeviceGetEncoderUtilization,
               nvmlDeviceGetEnforcedPowerLimit, nvmlDeviceGetGpuMaxPcieLinkGeneration, nvmlDeviceGetGspFirmwareMode,
               nvmlDeviceGetGspFirmwareVersion, nvmlDeviceGetHandleBySerial, nvmlDeviceGetJpgUtilization,
               nvmlDeviceGetMarginTemperature, nvmlDeviceGetMaxClockInfo, nvmlDeviceGetMaxPcieLinkGeneration,
               nvmlDeviceGetMaxPcieLinkWidth, nvmlDeviceGetMemoryBusWidth, nvmlDeviceGetMemoryErrorCounter,
               nvmlDeviceGetModuleId, nvmlDeviceGetMultiGpuBoard, nvmlDeviceGetNvLinkCapability,
               nvmlDeviceGetNvLinkErrorCounter, nvmlDeviceGetNvLinkInfo, nvmlDeviceGetNvLinkVersion,
               nvmlDeviceGetOfaUtilization, nvmlDeviceGetPcieLinkMaxSpeed, nvmlDeviceGetPcieReplayCounter,
               nvmlDeviceGetPcieSpeed, nvmlDeviceGetPcieThroughput, nvmlDeviceGetPdi, nvmlDeviceGetPerformanceState,
               nvmlDeviceGetPowerManagementDefaultLimit, nvmlDeviceGetPowerManagementLimit,
               nvmlDeviceGetPowerManagementLimitConstraints, nvmlDeviceGetPowerManagementMode, nvmlDeviceGetPowerState,
               nvmlDeviceGetProcessUtilization, nvmlDeviceGetProcessesUtilizationInfo, nvmlDeviceGetRemappedRows,
               nvmlDeviceGetRetiredPages, nvmlDeviceGetRetiredPagesPendingStatus, nvmlDeviceGetSamples,
               nvmlDeviceGetSupportedClocksEventReasons, nvmlDeviceGetSupportedClocksThrottleReasons,
               nvmlDeviceGetTemperatureThreshold, nvmlDeviceGetTotalEccErrors, nvmlDeviceGetTotalEnergyConsumption,
               nvmlDeviceOnSameBoard, nvmlDeviceSetPowerManagementLimit, nvmlDeviceValidateInforom,
               nvmlGetBlacklistDeviceCount, nvmlGetBlacklistDeviceInfoByIndex, nvmlGetExcludedDeviceCount,
               nvmlGetExcludedDeviceInfoByIndex, nvmlGpmQueryIfStreamingEnabled, nvmlSystemGetConfComputeSettings,
               nvmlSystemGetConfComputeState, nvmlSystemGetDriverBranch, nvmlSystemGetProcessName,
               nvmlSystemGetTopologyGpuSet, nvmlUnitGetCount)

// Virtual GPUs.
NONE_SIMULATED(nvmlDeviceGetActiveVgpus, nvmlDeviceGetCreatableVgpus, nvmlDeviceGetGridLicensableFeatures,
               nvmlDeviceGetGridLicensableFeatures_v2, nvmlDeviceGetGridLicensableFeatures_v3,
               nvmlDeviceGetGridLicensableFeatures_v4, nvmlDeviceGetHostVgpuMode, nvmlDeviceGetPgpuMetadataString,
               nvmlDeviceGetSupportedVgpus, nvmlDeviceGetVgpuCapabilities, nvmlDeviceGetVgpuHeterogeneousMode,
               nvmlDeviceGetVgpuInstancesUtilizationInfo, nvmlDeviceGetVgpuMetadata,
               nvmlDeviceGetVgpuProcessUtilization, nvmlDeviceGetVgpuProcessesUtilizationInfo,
               nvmlDeviceGetVgpuSchedulerCapabilities, nvmlDeviceGetVgpuSchedulerLog, nvmlDeviceGetVgpuSchedulerLog_v2,
               nvmlDeviceGetVgpuSchedulerState, nvmlDeviceGetVgpuSchedulerState_v2,
               nvmlDeviceGetVgpuTypeCreatablePlacements, nvmlDeviceGetVgpuTypeSupportedPlacements,
               nvmlDeviceGetVgpuUtilization, nvmlDeviceSetVgpuCapabilities, nvmlDeviceSetVgpuHeterogeneousMode,
               nvmlDeviceSetVgpuSchedulerState, nvmlDeviceSetVgpuSchedulerState_v2, nvmlDeviceVgpuForceGspUnload,
               nvmlGetVgpuCompatibility, nvmlGetVgpuDriverCapabilities, nvmlGetVgpuVersion,
               nvmlGpuInstanceGetActiveVgpus, nvmlGpuInstanceGetCreatableVgpus, nvmlGpuInstanceGetVgpuHeterogeneousMode,
               nvmlGpuInstanceGetVgpuSchedulerLog, nvmlGpuInstanceGetVgpuSchedulerLog_v2,
               nvmlGpuInstanceGetVgpuSchedulerState, nvmlGpuInstanceGetVgpuSchedulerState_v2,
               nvmlGpuInstanceGetVgpuTypeCreatablePlacements, nvmlGpuInstanceSetVgpuHeterogeneousMode,
               nvmlGpuInstanceSetVgpuSchedulerState, nvmlGpuInstanceSetVgpuSchedulerState_v2, nvmlSetVgpuVersion,
               nvmlVgpuInstanceClearAccountingPids, nvmlVgpuInstanceGetAccountingMode,
               nvmlVgpuInstanceGetAccountingPids, nvmlVgpuInstanceGetAccountingStats, nvmlVgpuInstanceGetEccMode,
               nvmlVgpuInstanceGetEncoderCapacity, nvmlVgpuInstanceGetEncoderSessions, nvmlVgpuInstanceGetEncoderStats,
               nvmlVgpuInstanceGetFBCSessions, nvmlVgpuInstanceGetFBCStats, nvmlVgpuInstanceGetFbUsage,
               nvmlVgpuInstanceGetFrameRateLimit, nvmlVgpuInstanceGetGpuInstanceId, nvmlVgpuInstanceGetGpuPciId,
               nvmlVgpuInstanceGetLicenseInfo, nvmlVgpuInstanceGetLicenseInfo_v2, nvmlVgpuInstanceGetLicenseStatus,
               nvmlVgpuInstanceGetMdevUUID, nvmlVgpuInstanceGetMetadata, nvmlVgpuInstanceGetPlacementId,
               nvmlVgpuInstanceGetRuntimeStateSize, nvmlVgpuInstanceGetType, nvmlVgpuInstanceGetUUID,
               nvmlVgpuInstanceGetVmDriverVersion, nvmlVgpuInstanceGetVmID, nvmlVgpuInstanceSetEncoderCapacity,
               nvmlVgpuTypeGetBAR1Info, nvmlVgpuTypeGetCapabilities, nvmlVgpuTypeGetClass, nvmlVgpuTypeGetDeviceID,
               nvmlVgpuTypeGetFbReservation, nvmlVgpuTypeGetFrameRateLimit, nvmlVgpuTypeGetFramebufferSize,
               nvmlVgpuTypeGetGpuInstanceProfileId, nvmlVgpuTypeGetGspHeapSize, nvmlVgpuTypeGetLicense,
               nvmlVgpuTypeGetMaxInstances, nvmlVgpuTypeGetMaxInstancesPerGpuInstance, nvmlVgpuTypeGetMaxInstancesPerVm,
               nvmlVgpuTypeGetName, nvmlVgpuTypeGetNumDisplayHeads, nvmlVgpuTypeGetResolution)

// Events of newer drivers, monitoring switches.
NONE_SIMULATED(nvmlEventSetGetContextCount_v1, nvmlEventSetGetContextData_v1, nvmlEventSetGetContextInfo_v1,
               nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1, nvmlEventSetRegisterGpuOperationalEvents_v1,
               nvmlEventSetWait_v3, nvmlGpmSetStreamingEnabled)

// Changes to a device.
NONE_SIMULATED(nvmlDeviceClearAccountingPids, nvmlDeviceClearCpuAffinity, nvmlDeviceClearEccErrorCounts,
               nvmlDeviceClearFieldValues, nvmlDeviceDiscoverGpus, nvmlDeviceFreezeNvLinkUtilizationCounter,
               nvmlDeviceModifyDrainState, nvmlDevicePowerSmoothingActivatePresetProfile,
               nvmlDevicePowerSmoothingSetState, nvmlDevicePowerSmoothingUpdatePresetProfileParam,
               nvmlDeviceReadWritePRM_v1, nvmlDeviceRemoveGpu, nvmlDeviceRemoveGpu_v2,
               nvmlDeviceResetApplicationsClocks, nvmlDeviceResetGpuLockedClocks, nvmlDeviceResetMemoryLockedClocks,
               nvmlDeviceResetNvLinkErrorCounters, nvmlDeviceResetNvLinkUtilizationCounter, nvmlDeviceSetAPIRestriction,
               nvmlDeviceSetAccountingMode, nvmlDeviceSetAdaptiveTgpMode_v1, nvmlDeviceSetApplicationsClocks,
               nvmlDeviceSetAutoBoostedClocksEnabled, nvmlDeviceSetClockOffsets,
               nvmlDeviceSetConfComputeUnprotectedMemSize, nvmlDeviceSetCpuAffinity,
               nvmlDeviceSetDefaultAutoBoostedClocksEnabled, nvmlDeviceSetDefaultFanSpeed_v2,
               nvmlDeviceSetDramEncryptionMode, nvmlDeviceSetDriverModel, nvmlDeviceSetEccMode,
               nvmlDeviceSetFanControlPolicy, nvmlDeviceSetFanSpeed_v2, nvmlDeviceSetGpcClkVfOffset,
               nvmlDeviceSetGpuLockedClocks, nvmlDeviceSetGpuOperationMode, nvmlDeviceSetHostname_v1,
               nvmlDeviceSetMemClkVfOffset, nvmlDeviceSetMemoryLimits_v1, nvmlDeviceSetMemoryLockedClocks,
               nvmlDeviceSetNvLinkDeviceLowPowerThreshold, nvmlDeviceSetNvLinkUtilizationControl,
               nvmlDeviceSetNvlinkBwMode, nvmlDeviceSetNvlinkBwModeAsync_v1, nvmlDeviceSetPowerManagementLimit_v2,
               nvmlDeviceSetPowerMizerMode_v1, nvmlDeviceSetRusdSettings_v1, nvmlDeviceSetTemperatureThreshold,
               nvmlDeviceSetVirtualizationMode, nvmlDeviceWorkloadPowerProfileClearRequestedProfiles,
               nvmlDeviceWorkloadPowerProfileGetCurrentProfiles, nvmlDeviceWorkloadPowerProfileGetProfilesInfo,
               nvmlDeviceWorkloadPowerProfileSetRequestedProfiles, nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1)

// Queries of a device.
NONE_SIMULATED(nvmlDeviceGetAPIRestriction, nvmlDeviceGetAccountingPids, nvmlDeviceGetAccountingStats,
               nvmlDeviceGetAccountingStats_v2, nvmlDeviceGetAdaptiveClockInfoStatus,
               nvmlDeviceGetAdaptiveTgpModeInfo_v1, nvmlDeviceGetApplicationsClock,
               nvmlDeviceGetAutoBoostedClocksEnabled, nvmlDeviceGetBBXTimeData_v1, nvmlDeviceGetBankRemapperStatus_v1,
               nvmlDeviceGetBoardPartNumber, nvmlDeviceGetBridgeChipInfo, nvmlDeviceGetClkMonStatus,
               nvmlDeviceGetClockOffsets, nvmlDeviceGetConfComputeGpuAttestationReport,
               nvmlDeviceGetConfComputeGpuCertificate, nvmlDeviceGetConfComputeMemSizeInfo,
               nvmlDeviceGetConfComputeProtectedMemoryUsage, nvmlDeviceGetCoolerInfo, nvmlDeviceGetCurrentClockFreqs,
               nvmlDeviceGetDefaultApplicationsClock, nvmlDeviceGetDetailedEccErrors, nvmlDeviceGetDramEncryptionMode,
               nvmlDeviceGetDriverModel, nvmlDeviceGetDriverModel_v2, nvmlDeviceGetDynamicPstatesInfo,
               nvmlDeviceGetEncoderCapacity, nvmlDeviceGetEncoderSessions, nvmlDeviceGetEncoderStats,
               nvmlDeviceGetFBCSessions, nvmlDeviceGetFBCStats, nvmlDeviceGetFanControlPolicy_v2, nvmlDeviceGetFanSpeed,
               nvmlDeviceGetFanSpeedRPM, nvmlDeviceGetFanSpeed_v2, nvmlDeviceGetGpcClkMinMaxVfOffset,
               nvmlDeviceGetGpcClkVfOffset, nvmlDeviceGetGpuFabricInfo_v4, nvmlDeviceGetGpuOperationMode,
               nvmlDeviceGetHostname_v1, nvmlDeviceGetInforomConfigurationChecksum, nvmlDeviceGetInforomImageVersion,
               nvmlDeviceGetInforomVersion, nvmlDeviceGetIrqNum, nvmlDeviceGetLastBBXFlushTime,
               nvmlDeviceGetMaxCustomerBoostClock, nvmlDeviceGetMemClkMinMaxVfOffset, nvmlDeviceGetMemClkVfOffset,
               nvmlDeviceGetMemoryLimits_v1, nvmlDeviceGetMinMaxClockOfPState, nvmlDeviceGetMinMaxFanSpeed,
               nvmlDeviceGetNumFans, nvmlDeviceGetNvLinkTelemetrySamples_v1, nvmlDeviceGetNvLinkUtilizationControl,
               nvmlDeviceGetNvLinkUtilizationCounter, nvmlDeviceGetNvlinkBwMode, nvmlDeviceGetNvlinkSupportedBwModes,
               nvmlDeviceGetPerformanceModes, nvmlDeviceGetPlatformInfo, nvmlDeviceGetPowerMizerMode_v1,
               nvmlDeviceGetPowerSource, nvmlDeviceGetRemappedRows_v2, nvmlDeviceGetRepairStatus,
               nvmlDeviceGetRetiredPages_v2, nvmlDeviceGetRowRemapperHistogram, nvmlDeviceGetSramEccErrorStatus,
               nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts, nvmlDeviceGetSupportedGraphicsClocks,
               nvmlDeviceGetSupportedMemoryClocks, nvmlDeviceGetSupportedPerformanceStates, nvmlDeviceGetTargetFanSpeed,
               nvmlDeviceGetThermalSettings, nvmlDeviceGetUnrepairableMemoryFlag_v1, nvmlDeviceGetViolationStatus,
               nvmlDevicePerfMetricsGetSamples_v1, nvmlDeviceQueryDrainState, nvmlDeviceReadPRMCounters_v1)

#undef NOT_SIMULATED
#undef NONE_SIMULATED
#undef EACH
#undef EACH_AGAIN
#undef EXPAND
#undef EXPAND3
#undef EXPAND2
#undef EXPAND1
#undef EXPAND0
#undef PARENTHESES

}  // namespace tranche::sim::nvml

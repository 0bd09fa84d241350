{{- define "tranche.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "tranche.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "tranche.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tranche.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "tranche.selector" -}}
app.kubernetes.io/name: {{ include "tranche.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tranche.labels" -}}
{{ include "tranche.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "tranche.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default (printf "v%s" .Chart.AppVersion)) -}}
{{- end -}}
{{- end }}

{{/* The ConfigMap with the configurations; empty where there is none. */}}
{{- define "tranche.configMap" -}}
{{- if .Values.config.name -}}
{{- .Values.config.name -}}
{{- else if .Values.config.map -}}
{{- printf "%s-configs" (include "tranche.fullname" .) -}}
{{- end -}}
{{- end }}

{{/* The node agent's user at the API server. */}}
{{- define "tranche.nodeAccount" -}}
{{- printf "system:serviceaccount:%s:%s-node" .Release.Namespace (include "tranche.fullname" .) -}}
{{- end }}

{{/* Not empty where the policies that limit an agent to its own node are installed. */}}
{{- define "tranche.ownNode" -}}
{{- if or (eq .Values.admission.ownNode "always") (and (eq .Values.admission.ownNode "auto") (semverCompare ">=1.32.0-0" .Capabilities.KubeVersion.Version)) -}}
yes
{{- end -}}
{{- end }}

{{/* Settings that both programs must have alike, since both make the same plan of them: NVIDIA's variables. */}}
{{- define "tranche.settings" -}}
{{- $values := dict
  "MIG_STRATEGY" .Values.migStrategy
  "FAIL_ON_INIT_ERROR" .Values.failOnInitError
  "DEVICE_LIST_STRATEGY" .Values.deviceListStrategy
  "DEVICE_ID_STRATEGY" .Values.deviceIDStrategy
  "DEVICE_DISCOVERY_STRATEGY" .Values.deviceDiscoveryStrategy
  "GDRCOPY_ENABLED" .Values.gdrcopyEnabled
  "GDS_ENABLED" .Values.gdsEnabled
  "MOFED_ENABLED" .Values.mofedEnabled
  "NVIDIA_CDI_HOOK_PATH" .Values.cdi.nvidiaHookPath
  "CDI_FEATURE_FLAGS" .Values.cdi.featureFlags
  "PASS_DEVICE_SPECS" .Values.compatWithCPUManager
  "NVIDIA_DRIVER_ROOT" .Values.nvidiaDriverRoot
  "NVIDIA_DEV_ROOT" .Values.nvidiaDevRoot
  "MPS_ROOT" .Values.mps.root
  "TRANCHE_LOG_FORMAT" .Values.log.format
  "TRANCHE_LOG_LEVEL" .Values.log.level
  "TRANCHE_STRICT" .Values.strict -}}
{{- range $name, $value := $values }}
{{- if not (kindIs "invalid" $value) }}
- name: {{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* What both pods have alike. */}}
{{- define "tranche.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $tolerations := .Values.tolerations | default list }}
{{- with .Values.startupTaint }}
{{- $tolerations = append $tolerations (dict "key" . "operator" "Exists") }}
{{- end }}
{{- with $tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "tranche.podSecurity" -}}
{{- if .Values.podSecurityContext }}
{{- toYaml .Values.podSecurityContext }}
{{- else }}
runAsUser: 0
runAsGroup: 0
seccompProfile: {type: RuntimeDefault}
{{- if .Values.openshift.enabled }}
seLinuxOptions: {type: {{ .Values.openshift.seLinuxType }}}
{{- end }}
{{- end }}
{{- end }}

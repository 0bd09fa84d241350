#!/usr/bin/env bash
# A kind cluster whose workers see this machine's GPUs, with Tranche installed in it: one command, again and again.
#   setup.sh [--name NAME] [--workers N] [--image IMAGE | --archive FILE] [--values FILE]
# It changes nothing on this machine: what Docker or NVIDIA's toolkit lack is said, with the command that mends it.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
source=$(readlink -f "$here/../..")

name=tranche workers=1 image='' archive=$source/build/tranche-image.tar values=$here/values.yaml
while (($#)); do
  case $1 in
    --name) name=${2:?--name needs a name} ;;
    --workers) workers=${2:?--workers needs a number} ;;
    --image) image=${2:?--image needs REPOSITORY:TAG} ;;
    --archive) archive=${2:?--archive needs a file} ;;
    --values) values=${2:?--values needs a file} ;;
    -h | --help) sed -n '2,4s/^# \?//p' "$0"; exit ;;
    *) printf 'setup: there is no %s; --help says what there is\n' "$1" >&2; exit 2 ;;
  esac
  shift 2
done

say() { printf '── %s\n' "$*" >&2; }
lacking=0
lacks() {  # what, what to do
  printf 'setup: %s\n       %s\n' "$1" "$2" >&2
  lacking=1
}

# --- what this machine has to have ------------------------------------------------------------------------------------
for program in docker kind kubectl helm nvidia-ctk nvidia-smi; do
  command -v "$program" >/dev/null || lacks "$program is not there" "install it: docs/install.md, \"On this machine, with kind\""
done
((lacking)) && exit 1
[[ $(docker info --format '{{.DefaultRuntime}}' 2>/dev/null) == nvidia ]] ||
  lacks "Docker's default runtime is not nvidia, so workers of kind see no GPU" \
    "sudo nvidia-ctk runtime configure --runtime=docker --set-as-default --cdi.enabled && sudo systemctl restart docker"
grep -Eqs '^[[:space:]]*accept-nvidia-visible-devices-as-volume-mounts[[:space:]]*=[[:space:]]*true' /etc/nvidia-container-runtime/config.toml ||
  lacks "NVIDIA's runtime does not take GPUs by mounts, which is how kind can ask for them" \
    "sudo nvidia-ctk config --set accept-nvidia-visible-devices-as-volume-mounts=true --in-place"
[[ -n $image || -r $archive ]] || lacks "there is no image at $archive" "./dev image, or --image REPOSITORY:TAG"
((lacking)) && exit 1
docker run --rm -v /dev/null:/var/run/nvidia-container-devices/all ubuntu:24.04 nvidia-smi -L >&2 ||
  { lacks "a container that asks for the GPUs by a mount does not see them" "sudo systemctl restart docker; then: nvidia-ctk config, docker info"; exit 1; }

# --- the cluster ------------------------------------------------------------------------------------------------------
if kind get clusters 2>/dev/null | grep -qx "$name"; then
  say "the cluster $name is there"
else
  say "creating the cluster $name"
  {
    printf 'kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n'
    for ((worker = 0; worker < workers; worker++)); do
      printf -- '- role: worker\n  extraMounts:\n  - {hostPath: /dev/null, containerPath: /var/run/nvidia-container-devices/all}\n'
    done
  } | kind create cluster --name "$name" --config -
fi
context=kind-$name

# Runs in the worker: the toolkit, with its runtime known to containerd, and the driver's parameters as containers see them.
prepare_worker() {
  set -eu
  if ! command -v nvidia-ctk >/dev/null; then
    apt-get update -q && apt-get install -q -y --no-install-recommends gnupg curl ca-certificates
    curl -fsSL https://nvidia.github.io/libnvidia-container/gpgkey | gpg --dearmor -o /usr/share/keyrings/nvidia-container-toolkit.gpg
    curl -fsSL https://nvidia.github.io/libnvidia-container/stable/deb/nvidia-container-toolkit.list |
      sed 's#deb https://#deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit.gpg] https://#' >/etc/apt/sources.list.d/nvidia-container-toolkit.list
    apt-get update -q && apt-get install -q -y --no-install-recommends nvidia-container-toolkit
  fi
  nvidia-ctk runtime configure --runtime=containerd --config-source=command --cdi.enabled
  # Where the driver may make device nodes itself, it makes nodes of GPUs that a container was not given.
  if ! grep -q '^ModifyDeviceFiles: 0' /proc/driver/nvidia/params; then
    umount /proc/driver/nvidia 2>/dev/null || true
    sed 's/^ModifyDeviceFiles: 1/ModifyDeviceFiles: 0/' /proc/driver/nvidia/params >/run/nvidia-params
    mount --bind /run/nvidia-params /proc/driver/nvidia/params
  fi
  systemctl restart containerd
}
for worker in $(kind get nodes --name "$name" | grep worker); do
  say "preparing $worker"
  docker exec -i "$worker" bash -c "$(declare -f prepare_worker); prepare_worker" >&2
  kubectl --context "$context" label node "$worker" --overwrite nvidia.com/gpu.present=true >&2
done
kubectl --context "$context" apply -f - >&2 <<'YAML'
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: nvidia}
handler: nvidia
---
apiVersion: v1
kind: Namespace
metadata: {name: tranche, labels: {pod-security.kubernetes.io/enforce: privileged}}
YAML

# --- Tranche ----------------------------------------------------------------------------------------------------------
more=()
if [[ -n $image ]]; then
  more=(--set "image.repository=${image%:*}" --set "image.tag=${image##*:}")
else
  say "loading $archive"
  kind load image-archive "$archive" --name "$name"
fi
say "installing the chart"
helm upgrade --install tranche "$source/deploy/helm/tranche" --kube-context "$context" -n tranche -f "$values" --wait "${more[@]}" >&2
kubectl --context "$context" -n tranche rollout status daemonset/tranche-node --timeout=120s >&2
kubectl --context "$context" -n tranche get pods -o wide
kubectl --context "$context" get nodes -o custom-columns='NODE:.metadata.name,GPU:.status.allocatable.nvidia\.com/gpu,SHARED:.status.allocatable.nvidia\.com/gpu\.shared'

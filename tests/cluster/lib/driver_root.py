"""What a driver container leaves on a node: a folder that is the root of the driver's files. Here the stand-ins lie in it,
and a C library that nothing of ours may load."""

import os
import shutil

from .image import libraries_of
from .tranche import SIM_NODE

ROOT = "/run/sim-driver"
DRIVER = "580.159.04"  # of the stand-in
LIBRARIES = "/run/sim-libraries"  # what the stand-ins are linked with and the image of the product has no use for
FOLDER = f"{ROOT}/usr/lib/x86_64-linux-gnu"


def make(build):
    standins = f"{build}/standins"
    for folder in (FOLDER, f"{ROOT}/usr/bin", LIBRARIES):
        os.makedirs(folder)
    for name in ("libnvidia-ml", "libcuda"):
        shutil.copy(f"{standins}/{name}.so.1", f"{FOLDER}/{name}.so.{DRIVER}")
        os.symlink(f"{name}.so.{DRIVER}", f"{FOLDER}/{name}.so.1")
    for name in ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server"):
        shutil.copy(f"{standins}/{name}", f"{ROOT}/usr/bin")
    with open(f"{FOLDER}/libc.so.6", "w") as file:
        file.write("the C library of the driver's own system\n")
    for name in ("libnvidia-ml.so.1", "libcuda.so.1", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"):
        for library in libraries_of(f"{standins}/{name}"):
            if os.path.basename(library).startswith(("libstdc++", "libgcc_s", "libyaml", "libfmt")):
                shutil.copy(os.path.realpath(library), f"{LIBRARIES}/{os.path.basename(library)}")


def values():
    """What the chart's pods need beside: the stand-ins find their node by a variable; and the way to the API server, which
    kube-proxy makes elsewhere."""
    env = [{"name": "TRANCHE_SIM_NODE", "value": SIM_NODE}]
    server = [{"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"}, {"name": "KUBERNETES_SERVICE_PORT", "value": "6443"}]
    volumes, mounts = [{"name": "sim", "hostPath": {"path": SIM_NODE}}], [{"name": "sim", "mountPath": SIM_NODE}]
    return {"nvidiaDriverRoot": ROOT, "nvidiaDevRoot": "/",
            "devicePlugin": {"enableHostNetwork": True, "extraEnv": env + server, "extraVolumes": volumes, "extraVolumeMounts": mounts},
            "mps": {"enableHostNetwork": True, "extraEnv": env + [{"name": "LD_LIBRARY_PATH", "value": LIBRARIES}],
                    "extraVolumes": [*volumes, {"name": "sim-libraries", "hostPath": {"path": LIBRARIES}}],
                    "extraVolumeMounts": [*mounts, {"name": "sim-libraries", "mountPath": LIBRARIES}]}}

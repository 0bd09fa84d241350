"""Stands in for NVIDIA's container runtime: the runtime class "nvidia". By a container's NVIDIA_VISIBLE_DEVICES (its own or its
image's) it is given the driver's libraries and programs, here the stand-ins, and the nodes of those GPUs; a container
without that variable gets nothing. Manifests need nothing beside what they have on a real node."""

import sys

from . import driver_root
from .programs import write
from .tranche import SIM_NODE

LISTED = "/var/run/nvidia-container-devices"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
CONTROLS = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"]
SCRIPT = '''#!{python}
import json, os, sys
LISTED = {listed!r}
def inject(spec):
    process = spec["process"]
    env = dict(word.split("=", 1) for word in process.get("env", []) if "=" in word)
    visible = env.get("NVIDIA_VISIBLE_DEVICES", "")
    if visible == "void":  # CDI gave the nodes; the stand-in for the driver goes by the variable instead
        nodes = [device["path"].removeprefix("/dev/nvidia") for device in spec["linux"].get("devices", [])]
        process["env"].append("NVIDIA_VISIBLE_DEVICES=" + ",".join({gpus!r}[int(node)] for node in nodes if node.isdigit()))
    if visible in ("", "void"):
        return
    if visible == LISTED:
        visible = ",".join(m["destination"][len(LISTED) + 1:] for m in spec["mounts"] if m["destination"].startswith(LISTED + "/"))
    gpus = {gpus!r}
    wanted = [] if visible == "none" else range(len(gpus)) if visible == "all" else [
        gpus.index(word) if word in gpus else int(word) for word in visible.split(",") if word in gpus or word.isdigit()]
    bind = lambda source, target, *more: spec["mounts"].append({{"destination": target, "source": source, "type": "bind", "options": ["rbind", *more]}})
    for name in os.listdir({folder!r}):
        if name.startswith(("libnvidia", "libcuda")):
            bind({folder!r} + "/" + name, {libraries!r} + "/" + name, "ro")
    if "utility" in env.get("NVIDIA_DRIVER_CAPABILITIES", "all") or "all" in env.get("NVIDIA_DRIVER_CAPABILITIES", "all"):
        for name in os.listdir({root!r} + "/usr/bin"):
            bind({root!r} + "/usr/bin/" + name, "/usr/bin/" + name, "ro")
    bind({sim_libraries!r}, {sim_libraries!r}, "ro")
    if {sim_node!r} not in [m["destination"] for m in spec["mounts"]]:
        bind({sim_node!r}, {sim_node!r}, "rw")
    process["env"] += ["TRANCHE_SIM_NODE=" + {sim_node!r}, "LD_LIBRARY_PATH=" + {sim_libraries!r}]
    devices, allowed = spec["linux"].setdefault("devices", []), spec["linux"].setdefault("resources", {{}}).setdefault("devices", [])
    there = {{device["path"] for device in devices}}
    for name in {controls!r} + ["nvidia%d" % gpu for gpu in wanted]:
        info = os.stat("/dev/" + name)
        major, minor = os.major(info.st_rdev), os.minor(info.st_rdev)
        if "/dev/" + name not in there:
            devices.append({{"path": "/dev/" + name, "type": "c", "major": major, "minor": minor, "fileMode": 0o666, "uid": 0, "gid": 0}})
        allowed.append({{"allow": True, "type": "c", "major": major, "minor": minor, "access": "rw"}})
words = sys.argv[1:]
for at, word in enumerate(words):
    if word in ("--bundle", "-b") and "create" in words:
        path = os.path.join(words[at + 1], "config.json")
        with open(path) as file:
            spec = json.load(file)
        inject(spec)
        with open(path, "w") as file:
            json.dump(spec, file)
os.execv({behind!r}, [{behind!r}, *words])
'''


def write_script(path, behind, gpus):
    """The program of the handler; it hands on to `behind`."""
    write(path, SCRIPT.format(python=sys.executable, listed=LISTED, gpus=gpus, folder=driver_root.FOLDER, root=driver_root.ROOT, libraries=LIBRARIES,
                              sim_libraries=driver_root.LIBRARIES, sim_node=SIM_NODE, controls=CONTROLS, behind=behind), 0o755)

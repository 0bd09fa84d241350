#!/usr/bin/env python3
"""NVIDIA's nvidia-mig-parted and ours on the same simulated nodes: what both export, assert and checkpoint, what both make of a file.

    tests/mig_parted/compare.py [--build build] [--program FILE] [--thorough]

NVIDIA's program is built with Go, unless --program names one: what it needs has the versions of its own go.mod, and go.sum pins it. It looks for GPUs in /sys/bus/pci/devices and
for the driver's module in /proc/modules, so the comparison runs in a mount namespace (root) where both show the simulated node.
Exit status 77: this machine cannot run it, and the reason is printed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
MIG_PARTED = "github.com/NVIDIA/mig-parted@v0.13.1"
# Profile of the stand-in's GPUs -> sets of GPUs; every default configuration of each node is tried.
NODES = {
    "H200": [("H200", 2)],
    "A100-40": [("A100-PCIE-40GB", 2)],
    "A100-80": [("A100-SXM4-80GB", 2)],
    "H100": [("H100-SXM5-80GB", 2)],
    "B200": [("B200", 2)],
    "RTX-PRO-6000": [("RTX-PRO-6000", 2)],
    "two models": [("H100-SXM5-80GB", 1), ("A100-SXM4-80GB", 2)],
    "one without MIG": [("H200", 1), ("L40S", 1)],
    "none with MIG": [("L40S", 2)],
}
HEAD = "version: v1\nmig-configs:\n"
# Shapes of files: name -> text. The node is two H200 with all-balanced; the selected configuration is `x` where there is one.
BALANCED = "{1g.18gb: 2, 2g.35gb: 1, 3g.71gb: 1}"
FILES = {
    "as applied": HEAD + f"  x:\n  - {{devices: all, mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "one entry for each GPU": HEAD + f"  x:\n  - {{devices: [0], mig-enabled: true, mig-devices: {BALANCED}}}\n  - {{devices: [1], mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "one GPU only": HEAD + f"  x:\n  - {{devices: [1], mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "a GPU that is not there": HEAD + f"  x:\n  - {{devices: [0, 7], mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "a later entry that differs": HEAD + f"  x:\n  - {{devices: all, mig-enabled: true, mig-devices: {BALANCED}}}\n  - {{devices: [1], mig-enabled: false}}\n",
    "an earlier entry that differs": HEAD + f"  x:\n  - {{devices: [1], mig-enabled: false}}\n  - {{devices: all, mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "an order of instances": HEAD + "  x:\n  - {devices: all, mig-enabled: true, mig-devices: {3g.71gb: 1, 1g.18gb: 2, 2g.35gb: 1}}\n",
    "too few instances": HEAD + "  x:\n  - {devices: all, mig-enabled: true, mig-devices: {1g.18gb: 2, 2g.35gb: 1}}\n",
    "a count of zero": HEAD + "  x:\n  - {devices: all, mig-enabled: true, mig-devices: {1g.18gb: 2, 2g.35gb: 1, 3g.71gb: 1, 7g.141gb: 0}}\n",
    "a negative count": HEAD + "  x:\n  - {devices: all, mig-enabled: true, mig-devices: {1g.18gb: -2}}\n",
    "no instances": HEAD + "  x:\n  - {devices: all, mig-enabled: true}\n",
    "MIG off": HEAD + "  x:\n  - {devices: all, mig-enabled: false}\n",
    "MIG off with instances": HEAD + f"  x:\n  - {{devices: all, mig-enabled: false, mig-devices: {BALANCED}}}\n",
    "a filter of this model": HEAD + f"  x:\n  - {{device-filter: '0x233510DE', devices: all, mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "a filter in small letters": HEAD + f"  x:\n  - {{device-filter: '0x233510de', devices: all, mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "filters in a list": HEAD + f"  x:\n  - {{device-filter: ['0x20B010DE', '0x233510DE'], devices: all, mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "a filter of a different model": HEAD + "  x:\n  - {device-filter: '0x20B010DE', devices: all, mig-enabled: false}\n",
    "a filter that is none": HEAD + f"  x:\n  - {{device-filter: 'H200', devices: all, mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "a filter that is empty": HEAD + f"  x:\n  - {{device-filter: '', devices: all, mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "JSON": json.dumps({"version": "v1", "mig-configs": {"x": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.18gb": 2, "2g.35gb": 1, "3g.71gb": 1}}]}}),
    "no version": f"mig-configs:\n  x:\n  - {{devices: all, mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "a different version": f"version: v2\nmig-configs:\n  x:\n  - {{devices: all, mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "an unknown key on top": HEAD + f"  x:\n  - {{devices: all, mig-enabled: true, mig-devices: {BALANCED}}}\nsharing: {{}}\n",
    "an unknown key in an entry": HEAD + f"  x:\n  - {{devices: all, mig-enabled: true, mig-devices: {BALANCED}, reset: true}}\n",
    "devices left out": HEAD + f"  x:\n  - {{mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "mig-enabled left out": HEAD + f"  x:\n  - {{devices: all, mig-devices: {BALANCED}}}\n",
    "devices by a word": HEAD + f"  x:\n  - {{devices: some, mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "devices by text": HEAD + f"  x:\n  - {{devices: ['0', '1'], mig-enabled: true, mig-devices: {BALANCED}}}\n",
    "an unknown profile": HEAD + "  x:\n  - {devices: all, mig-enabled: true, mig-devices: {5g.90gb: 1}}\n",
    "a profile that is none": HEAD + "  x:\n  - {devices: all, mig-enabled: true, mig-devices: {large: 1}}\n",
    "a profile with media engines": HEAD + "  x:\n  - {devices: all, mig-enabled: true, mig-devices: {1g.18gb+me: 1}}\n",
    "a part of an instance": HEAD + "  x:\n  - {devices: all, mig-enabled: true, mig-devices: {1c.3g.71gb: 2}}\n",
    "a configuration that is empty": HEAD + "  x: []\n",
    "no configurations": "version: v1\nmig-configs: {}\n",
    "a different name": HEAD + f"  y:\n  - {{devices: all, mig-enabled: true, mig-devices: {BALANCED}}}\n  z: []\n",
    "empty": "",
    "no YAML": "version: [\n",
    "a list": "- a\n- b\n",
}
# Where ours differs on purpose (docs/compatibility/command-line.md): name of the file -> why.
DIFFERENT = {
    "an earlier entry that differs": "the last entry that names a GPU counts, as it does in apply; NVIDIA's asserts each entry",
    "a count of zero": "no instance of a profile is what the GPU has; NVIDIA's looks for the profile in a list",
    "a filter that is none": "a filter that no GPU can match is refused; NVIDIA's passes over the entry",
}


def cannot(why):
    print(why)
    sys.exit(77)


class Node:
    """A simulated node, and both programs on it."""

    def __init__(self, build, theirs, gpus, thorough):
        self.build, self.theirs, self.thorough = build, theirs, thorough
        self.folder = tempfile.mkdtemp(prefix="mig-parted-")
        os.mkdir(self.path("node"))
        self.profiles = [profile for profile, count in gpus for _ in range(count)]
        self.write("node/node.yaml", "gpus:\n" + "".join(f"  - {{profile: {profile}}}\n" for profile in self.profiles))
        self.environment = {"TRANCHE_SIM_NODE": self.path("node"), "LD_LIBRARY_PATH": f"{build}/standins", "PATH": f"{build}/standins:/usr/bin:/bin", "HOME": self.folder, "TRANCHE_RUN_DIR": self.path("run"), "DRIVER_ROOT_CTR_PATH": self.path("driver")}
        os.symlink(f"{build}/bin/tranche", self.path("nvidia-mig-parted"))
        os.makedirs(self.path("driver/usr/bin"))
        shutil.copy(f"{build}/standins/sim-node", self.path("driver/usr/bin/nvidia-smi"))
        self.show()

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def run(self, *words):
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60, check=False)

    def show(self):
        """The node's GPUs as the kernel would list them, mounted over this machine's."""
        pci = self.path("pci")
        os.mkdir(pci)
        addresses = re.findall(r"GPU-\S+  0000(\S+)", self.run(f"{self.build}/standins/sim-node", "show").stdout)
        for address, profile in zip(addresses, self.profiles):
            with open(f"{self.build}/standins/profiles/{profile}.yaml") as file:
                device = yaml.safe_load(file)["pci"]
            folder = os.path.join(pci, address.lower())
            os.mkdir(folder)
            for name, text in {"vendor": "0x10de", "device": f"{device['device']:#06x}", "class": f"{device['class']:#08x}", "numa_node": "0", "resource": "0x0 0x0 0x0"}.items():
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text + "\n")
        subprocess.run(["mount", "--bind", pci, "/sys/bus/pci/devices"], check=True)

    def close(self):
        subprocess.run(["umount", "/sys/bus/pci/devices"], check=True)
        shutil.rmtree(self.folder)

    def both(self, *words):
        return self.run(self.theirs, *words), self.run(self.path("nvidia-mig-parted"), *words)


def in_own_namespace():
    if os.environ.get("TRANCHE_MIG_PARTED_INSIDE"):
        return
    if os.geteuid() != 0:
        cannot("needs root: the comparison mounts a simulated node over /sys/bus/pci/devices")
    os.environ["TRANCHE_MIG_PARTED_INSIDE"] = "1"
    os.execvp("unshare", ["unshare", "-m", "--propagation", "private", sys.executable, *sys.argv])


def show_module():
    """A /proc with a list of modules, which a kernel without loadable ones lacks."""
    real = tempfile.mkdtemp(prefix="proc-")
    subprocess.run(["mount", "--rbind", "/proc", real], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/proc"], check=True)
    with open("/proc/modules", "w") as file:
        file.write("nvidia 1 0 - Live 0x0\n")
    for name in os.listdir(real):
        if name != "modules":
            os.symlink(os.path.join(real, name), os.path.join("/proc", name))


def program(given):
    if given:
        return os.path.abspath(given)
    if not shutil.which("go"):
        cannot("needs Go to build nvidia-mig-parted, or --program")
    out = os.path.join(tempfile.gettempdir(), f"nvidia-mig-parted-{MIG_PARTED.rpartition('@')[2]}")
    if not os.path.exists(out):
        env = {**os.environ, "CGO_ENABLED": "1", "GOFLAGS": "-buildvcs=false -mod=readonly", "GOWORK": "off"}
        got = subprocess.run(["go", "mod", "download", "-json", MIG_PARTED], cwd=HERE, env=env, stdout=subprocess.PIPE, text=True, check=False)
        folder = json.loads(got.stdout or "{}").get("Dir")
        if not folder or subprocess.run(["go", "build", "-o", out, "./cmd/nvidia-mig-parted"], cwd=folder, env=env, check=False).returncode:
            cannot("nvidia-mig-parted cannot be built")
    return out


class Table:
    def __init__(self):
        self.rows, self.bad = 0, []

    def row(self, what, same, theirs, ours):
        self.rows += 1
        if not same:
            self.bad.append(what)
            for name, done in (("NVIDIA", theirs), ("ours", ours)):
                print(f"DIFFERENT {what}: {name}: exit {done.returncode}: {(done.stdout + done.stderr).strip()[-400:]!r}")


def entries(done):
    """What an export says, without the order of entries."""
    document = yaml.safe_load(done.stdout) if done.returncode == 0 else None
    return document and {name: sorted(entries or [], key=json.dumps) for name, entries in document["mig-configs"].items()} | {"version": document["version"]}


def compare_export(table, node, what):
    for words in (["export"], ["export", "-o", "json", "-l", "mine"]):
        theirs, ours = node.both(*words)
        same = theirs.returncode == ours.returncode and entries(theirs) == entries(ours)
        table.row(f"{what}: {' '.join(words)}", same, theirs, ours)


def defaults(table, node, what):
    """Each default configuration applied, by ours and by NVIDIA's in turn, then exported and asserted against all of them by both."""
    generated = node.run(f"{node.build}/bin/tranche", "mig", "generate-config")
    file = node.write("defaults.yaml", generated.stdout)
    names = list((yaml.safe_load(generated.stdout) or {}).get("mig-configs") or {})
    compare_export(table, node, f"{what}, as it came")
    for turn, name in enumerate(names):
        done = node.run([node.theirs, node.path("nvidia-mig-parted")][turn % 2], "apply", "-f", file, "-c", name)
        who = ("NVIDIA's", "ours")[turn % 2]
        table.row(f"{what}: {who} applies {name}", done.returncode == 0, done, done)
        compare_export(table, node, f"{what}, {name} by {who}")
        for asserted in {name, names[0], names[1], names[(turn + 1) % len(names)]} if not node.thorough else names:
            for words in (["assert"], ["assert", "--mode-only"]):
                theirs, ours = node.both(*words, "-f", file, "-c", asserted)
                table.row(f"{what}, {name} by {who}: {' '.join(words)} {asserted}", (theirs.returncode == 0) == (ours.returncode == 0), theirs, ours)


def saved(node, program, name):
    """A checkpoint by one of the programs, without the order of entries; None where it failed."""
    file = node.path(name)
    done = node.run(program, "checkpoint", "-f", file)
    if done.returncode:
        return done, None
    with open(file) as text:
        document = json.load(text)
    document["MigState"]["Devices"] = document["MigState"]["Devices"] or []
    for device in document["MigState"]["Devices"]:
        device["GpuInstances"] = sorted(device["GpuInstances"] or [], key=json.dumps)
        for instance in device["GpuInstances"]:
            instance["ComputeInstances"] = sorted(instance["ComputeInstances"] or [], key=json.dumps)
    return done, document


def checkpoints(table, node, what):
    """Both write the same checkpoint of each default configuration, and each restores what the other wrote."""
    ours = node.path("nvidia-mig-parted")
    file = node.path("defaults.yaml")
    with open(file) as text:
        names = list((yaml.safe_load(text) or {}).get("mig-configs") or {})
    for turn, name in enumerate(names):
        done = node.run(ours, "apply", "-f", file, "-c", name)
        table.row(f"{what}: apply {name} before a checkpoint", done.returncode == 0, done, done)
        theirs_done, theirs_saved = saved(node, node.theirs, "theirs.json")
        ours_done, ours_saved = saved(node, ours, "ours.json")
        table.row(f"{what}, {name}: checkpoint", theirs_saved is not None and theirs_saved == ours_saved, theirs_done, ours_done)
        # NVIDIA's restore does not reset, so on Ampere it cannot come from a GPU whose MIG mode is off.
        others = [other for other in names if other != name and (turn % 2 == 0 or other != "all-disabled")] or [name]
        away = node.run(ours, "apply", "-f", file, "-c", others[turn % len(others)])
        table.row(f"{what}, {name}: a different configuration", away.returncode == 0, away, away)
        who, program, written = (("ours", ours, "theirs.json"), ("NVIDIA's", node.theirs, "ours.json"))[turn % 2]
        back = node.run(program, "restore", "-f", node.path(written))
        table.row(f"{what}, {name}: {who} restores {written}", back.returncode == 0, back, back)
        again_done, again = saved(node, ours, "again.json")
        table.row(f"{what}, {name}: as it was after {who} restored it", again == ours_saved, back, again_done)


def shapes(table, node):
    done = node.run(node.path("nvidia-mig-parted"), "apply", "-f", node.write("mig.yaml", FILES["as applied"]), "-c", "x")
    table.row("all-balanced is applied", done.returncode == 0, done, done)
    for name, text in FILES.items():
        file = node.write("mig.yaml", text)
        for words in (["assert"], ["assert", "--mode-only"], ["assert", "--valid-config"]):
            for selected in ([], ["-c", "x"]) if node.thorough else (["-c", "x"],):
                theirs, ours = node.both(*words, "-f", file, *selected)
                what = f"file with {name}: {' '.join(words + selected)}"
                if name in DIFFERENT:
                    if theirs.returncode == ours.returncode:
                        continue
                    print(f"as documented: {what}: {DIFFERENT[name]}")
                    continue
                table.row(what, (theirs.returncode == 0) == (ours.returncode == 0), theirs, ours)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(HERE, "../../build"))
    parser.add_argument("--program", help="NVIDIA's program, instead of building it")
    parser.add_argument("--thorough", action="store_true", help="every configuration asserted against every one: 2,400 comparisons")
    arguments = parser.parse_args()
    in_own_namespace()
    theirs = program(arguments.program)
    if not os.path.isdir("/sys/bus/pci/devices"):
        cannot("this machine has no /sys/bus/pci/devices to mount over")
    show_module()
    table = Table()
    for what, gpus in NODES.items():
        node = Node(os.path.abspath(arguments.build), theirs, gpus, arguments.thorough)
        try:
            defaults(table, node, what)
            checkpoints(table, node, what)
            if what == "H200":
                shapes(table, node)
        finally:
            node.close()
    print(f"{table.rows} comparisons on {len(NODES)} nodes and {len(FILES)} files, {len(table.bad)} different")
    return 1 if table.bad else 0


if __name__ == "__main__":
    sys.exit(main())

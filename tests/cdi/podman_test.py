#!/usr/bin/env python3
"""The specs of `tranche node`, used by a real consumer: podman starts containers with the devices of a simulated node.

The node's files (libraries, sockets, the hook program, device nodes that behave like /dev/null) lie in a driver root of
the test's own. podman 4.3 reads CDI specs from /etc/cdi and /var/run/cdi only, so the test has a mount namespace with a
/run of its own. Exit status 77: cannot be done here, with the reason.
"""
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time

SKIP = 77
VENDOR = "k8s.device-plugin.nvidia.com"
DRIVER = "580.159.04"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
CDI_ROOT = "/var/run/cdi"
BUILD = os.environ.get("TRANCHE_BUILD", "build")

# Without CAP_SYS_RESOURCE a runtime cannot set these two; nothing that is tested here needs them.
RUNTIME = """#!{python}
import json, os, sys
args = sys.argv[1:]
bundles = [args[i + 1] for i, a in enumerate(args[:-1]) if a in ("--bundle", "-b")]
path = os.path.join(bundles[0] if bundles else ".", "config.json")
if os.path.exists(path):
    config = json.load(open(path))
    for key in ("oomScoreAdj", "rlimits"):
        config.get("process", {{}}).pop(key, None)
    json.dump(config, open(path, "w"))
os.execv({runc!r}, ["runc"] + args)
"""

HOOK = """#!/bin/sh
# Stands for nvidia-cdi-hook: writes down how it was called, and by what state of the container.
{{ for word in "$@"; do printf '%s\\n' "$word"; done; printf 'state %s\\n' "$(cat)"; }} >> {log}
"""

SHOW = """
echo "env NVIDIA_VISIBLE_DEVICES=$NVIDIA_VISIBLE_DEVICES"
echo "env NVIDIA_CTK_LIBCUDA_DIR=$NVIDIA_CTK_LIBCUDA_DIR"
for f in /dev/nvidia* /dev/gdrdrv; do [ -c "$f" ] && echo "node $f $(busybox stat -c '%a %t:%T' "$f")"; done
for f in /usr/lib/x86_64-linux-gnu/*; do echo "library $f $(busybox cat "$f")"; done
busybox cat /lib/firmware/nvidia/*/gsp_ga10x.bin
echo > /usr/lib/x86_64-linux-gnu/libcuda.so.""" + DRIVER + """ 2>/dev/null && echo "library is writable"
[ -S /run/nvidia-persistenced/socket ] && echo "socket is there"
echo into > /dev/nvidiactl && echo "node takes what is written"
nvidia-smi
exit 0
"""


def skip(reason):
    print("SKIPPED: " + reason)
    sys.exit(SKIP)


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


def until(condition, what, seconds=60.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise Failure("did not come about: " + what)


class Bed:
    """A simulated node in a directory of its own, `tranche node` on it, and podman beside it."""

    def __init__(self, path):
        self.path = path
        self.program = None
        self.parent = "tranche-cdi-%d" % os.getpid()
        for name in ("node", "plugins", "run", "bin", "rootfs/bin", "rootfs/etc", "rootfs/dev", "rootfs/proc"):
            os.makedirs(self.at(name))
        self.write("bin/runc", RUNTIME.format(python=sys.executable, runc=shutil.which("runc")), 0o755)
        shutil.copy(shutil.which("busybox"), self.at("rootfs/bin/busybox"))
        os.symlink("busybox", self.at("rootfs/bin/sh"))

    def at(self, name):
        return os.path.join(self.path, name.lstrip("/"))

    def write(self, name, text, mode=0o644):
        os.makedirs(os.path.dirname(self.at(name)), exist_ok=True)
        with open(self.at(name), "w") as file:
            file.write(text)
        os.chmod(self.at(name), mode)

    def make_driver(self):
        for library in ("libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so"):
            self.write("driver%s/%s.%s" % (LIBRARIES, library, DRIVER), library)
        os.symlink("libcuda.so." + DRIVER, self.at("driver%s/libcuda.so.1" % LIBRARIES))
        self.write("driver/lib/firmware/nvidia/%s/gsp_ga10x.bin" % DRIVER, "firmware\n")
        self.write("driver/usr/bin/nvidia-smi", "#!/bin/sh\necho nvidia-smi runs\n", 0o755)
        self.write("driver/usr/bin/nvidia-cdi-hook", HOOK.format(log=self.at("hook.log")), 0o755)
        os.makedirs(self.at("driver/run/nvidia-persistenced"))
        server = socket.socket(socket.AF_UNIX)
        server.bind(self.at("driver/run/nvidia-persistenced/socket"))
        server.close()
        os.makedirs(self.at("driver/dev"))
        for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "gdrdrv"):
            try:
                os.mknod(self.at("driver/dev/" + name), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            except OSError as error:
                skip("device nodes may not be made here: %s" % error)
        os.chmod(self.at("driver/dev/nvidia1"), 0o660)

    def environment(self):
        return {
            "TRANCHE_SIM_NODE": self.at("node"),
            "LD_LIBRARY_PATH": BUILD + "/standins",
            "PATH": BUILD + "/standins:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": self.path,
        }

    def uuids(self):
        self.write("node/node.yaml", "driver: %s\ngpus: {profile: H200, count: 2}\n" % DRIVER)
        shown = subprocess.run([BUILD + "/standins/sim-node", "show"], env=self.environment(), check=True,
                               capture_output=True, text=True)
        return [word for word in shown.stdout.split() if word.startswith("GPU-")]

    def start_node(self, *more):
        self.stop_node()
        self.program = subprocess.Popen(
            [BUILD + "/bin/tranche", "node", "--kubelet-socket", "", "--plugin-dir", self.at("plugins"), "--run-dir",
             self.at("run"), "--driver-root", self.at("driver"), "--driver-root-ctr-path", self.at("driver"),
             "--device-list-strategy", "cdi-cri", "--nvidia-cdi-hook-path", self.at("driver/usr/bin/nvidia-cdi-hook"),
             *more],
            env=self.environment(), stdout=subprocess.DEVNULL, stderr=open(self.at("node.log"), "a"))

    def stop_node(self):
        if self.program is None:
            return
        self.program.send_signal(signal.SIGTERM)
        status = self.program.wait(60)
        self.program = None
        expect(status == 0, "tranche node ended with %d" % status)

    def problem(self):
        asked = subprocess.run([BUILD + "/bin/tranche", "status", "--json", "--socket", self.at("run/node.sock")],
                               env=self.environment(), capture_output=True, text=True)
        return json.loads(asked.stdout).get("cdiProblem") if asked.returncode == 0 else None

    def podman(self, *words):
        return subprocess.run(
            ["podman", "--root", self.at("storage"), "--runroot", self.at("runroot"), "--cgroup-manager", "cgroupfs",
             "--runtime", self.at("bin/runc"), "run", "--rm", "--network", "none", "--log-driver", "none",
             "--cgroup-parent", "/" + self.parent, *words], capture_output=True, text=True, timeout=60)

    def container(self, *devices):
        flags = [word for device in devices for word in ("--device", "%s/%s" % (VENDOR, device))]
        done = self.podman(*flags, "--rootfs", self.at("rootfs"), "/bin/busybox", "sh", "-c", SHOW)
        expect(done.returncode == 0, "podman: " + done.stderr)
        return done.stdout.splitlines()

    def clean(self):
        if self.program is not None:
            self.program.kill()
            self.program.wait()
        # cgroups are not of the mount namespace, so they stay unless somebody removes them
        for folder, _, _ in os.walk("/sys/fs/cgroup", topdown=False):
            if "/" + self.parent in folder:
                try:
                    os.rmdir(folder)
                except OSError:
                    pass


def specs():
    return sorted(os.listdir(CDI_ROOT)) if os.path.isdir(CDI_ROOT) else []


def written(bed, cls, device):
    """The spec of a class, once it has this device."""
    def look():
        try:
            with open("%s/%s-%s.json" % (CDI_ROOT, VENDOR, cls)) as file:
                spec = json.load(file)
        except FileNotFoundError:
            return None
        return spec if device in [d["name"] for d in spec["devices"]] else None
    return until(look, "a spec of class %s with %s; %s" % (cls, device, bed.problem()))


def nodes_of(lines):
    return [line.split()[1] for line in lines if line.startswith("node /dev/")]


def test_by_uuid(bed, uuids):
    bed.start_node()
    spec = written(bed, "gpu", uuids[1])
    expect(spec["cdiVersion"] == "0.5.0", "host paths of nodes need 0.5.0: " + spec["cdiVersion"])
    expect(bed.problem() == "", "a problem: %s" % bed.problem())
    lines = bed.container("gpu=" + uuids[1])
    expect("env NVIDIA_VISIBLE_DEVICES=void" in lines, "variable in %s" % lines)
    expect("env NVIDIA_CTK_LIBCUDA_DIR=" + LIBRARIES in lines, "variable in %s" % lines)
    expect(nodes_of(lines) == ["/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia1", "/dev/nvidiactl"],
           "the nodes of GPU 1 and no other: %s" % lines)
    expect("node /dev/nvidia1 666 1:3" in lines, "for any user, though 0660 on the host: %s" % lines)
    expect("library %s/libcuda.so.%s libcuda.so" % (LIBRARIES, DRIVER) in lines, "library in %s" % lines)
    for said in ("firmware", "socket is there", "node takes what is written", "nvidia-smi runs"):
        expect(said in lines, "%r in %s" % (said, lines))
    expect("library is writable" not in lines, "libraries are read-only")
    with open(bed.at("hook.log")) as log:
        words = log.read().splitlines()
    for word in ("create-symlinks", "libcuda.so.%s::%s/libcuda.so.1" % (DRIVER, LIBRARIES), "enable-cuda-compat",
                 "--host-driver-version=" + DRIVER, "update-ldcache", LIBRARIES, "disable-device-node-modification"):
        expect(word in words, "a hook with %r in %s" % (word, words))
    expect(any(word.startswith('state {') for word in words), "the runtime gives hooks its state: %s" % words)


def test_by_index_and_other_class(bed, uuids):
    expect("%s-gpu.json" % VENDOR in specs(), "the spec stays when the program ends")
    bed.start_node("--device-id-strategy", "index", "--gdrcopy-enabled", "--gds-enabled", "--cdi-disable-hooks", "all")
    written(bed, "gpu", "1")
    written(bed, "gdrcopy", "all")
    until(lambda: "no CDI spec for gds" in (bed.problem() or ""), "a problem that names gds")
    os.remove(bed.at("hook.log"))
    lines = bed.container("gpu=0", "gdrcopy=all")
    expect("/dev/nvidia0" in nodes_of(lines) and "/dev/gdrdrv" in nodes_of(lines), "nodes in %s" % lines)
    expect("/dev/nvidia1" not in nodes_of(lines), "only what was asked for: %s" % lines)
    expect(not os.path.exists(bed.at("hook.log")), "no hooks")


def test_without_hook_program(bed, uuids):
    os.remove(bed.at("driver/usr/bin/nvidia-cdi-hook"))
    bed.start_node()
    written(bed, "gpu", uuids[0])
    until(lambda: "nvidia-cdi-hook is not on the node" in (bed.problem() or ""), "a problem that names the program")
    until(lambda: specs() == ["%s-gpu.json" % VENDOR], "the class gdrcopy is not wanted any more")
    lines = bed.container("gpu=" + uuids[0], "gpu=" + uuids[1])
    expect({"/dev/nvidia0", "/dev/nvidia1"} <= set(nodes_of(lines)), "both nodes in %s" % lines)
    expect("library %s/libcuda.so.1 libcuda.so" % LIBRARIES in lines, "the link is a mount: %s" % lines)


def run_all(bed):
    if bed.podman("--rootfs", bed.at("rootfs"), "/bin/busybox", "true").returncode != 0:
        done = bed.podman("--rootfs", bed.at("rootfs"), "/bin/busybox", "true")
        skip("podman cannot start a container here: " + (done.stderr.strip().splitlines() or ["(no word)"])[-1])
    bed.make_driver()
    uuids = bed.uuids()
    for test in (test_by_uuid, test_by_index_and_other_class, test_without_hook_program):
        begin = time.monotonic()
        test(bed, uuids)
        print("ok %s (%.1f s)" % (test.__name__, time.monotonic() - begin))
    bed.stop_node()


def main():
    if os.geteuid() != 0:
        skip("needs root, for a mount namespace and device nodes")
    for program in ("podman", "runc", "busybox", "unshare", "conmon"):
        if shutil.which(program) is None:
            skip(program + " is not installed")
    if "TRANCHE_OWN_MOUNTS" not in os.environ:
        os.environ["TRANCHE_OWN_MOUNTS"] = "1"
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
            skip("no mount namespace may be made here")
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], capture_output=True).returncode != 0:
        skip("nothing may be mounted here")
    path = tempfile.mkdtemp(prefix="tr-cdi-")
    bed = Bed(path)
    try:
        run_all(bed)
    except (Failure, subprocess.SubprocessError) as failure:
        print("FAILED: %s" % failure)
        if os.path.exists(bed.at("node.log")):
            print(open(bed.at("node.log")).read())
        sys.exit(1)
    finally:
        bed.clean()
        shutil.rmtree(path, ignore_errors=True)


main()

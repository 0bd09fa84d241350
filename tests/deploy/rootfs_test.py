#!/usr/bin/env python3
"""The image compat run as NVIDIA's manifests run it, in namespaces instead of a container: by the GPU Operator's script as first
process, without a driver, without rights, killed again and again. SKIPPED where there are no namespaces.

Rows, what the manifests require of the image: 1 four programs by name in PATH; 2 `/bin/sh -c SCRIPT`, which the plugin replaces as process 1, so that signals reach it; 3 tools of the script, and flags by loaded modules;
4 a read-only root; 5 `/bin/bash -c` with double brackets (operators up to 25.3); 6 free paths /bin/entrypoint.sh and /var/run/cdi; 7 configuration by variables, also unknown ones; 10 NVIDIA_VISIBLE_DEVICES=void inside; 11 libraries
registered by the host's `ldconfig -r`; 14 config manager by the operator's variables; 15 a signal for the reader in the same pod; 16 config manager without driver and permissions; 17 repeated `mount-shm`; 18 the MPS pod with only a
file; 20 a quick end on SIGTERM (with running clients, daemons have 10 s to quit); 21 repeated kills; 26 MIG_STRATEGY=single on GPUs without MIG; 29 feature discovery of old operators; 31 no probes, no ports; 32 all capabilities
dropped; 33 no use of the plugin's /dev/shm; 34 files of NVIDIA's v0.17 to v0.20, and leftovers of its daemon."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.environ["TRANCHE_SOURCE"], "tests/cluster"))
from lib.gpu_operator import DRIVER_READY, ENTRYPOINT  # noqa: E402
from rootfs import PATH, Rootfs, until  # noqa: E402

SOURCE, BUILD = os.environ["TRANCHE_SOURCE"], os.environ["TRANCHE_BUILD"]
DRIVER = "580.159.04"  # of the stand-in
NVIDIAS = ["config-manager", "gpu-feature-discovery", "mps-control-daemon", "nvidia-device-plugin", "nvidia-mig-manager", "nvidia-mig-parted"]
PLUGINS = "/var/lib/kubelet/device-plugins"
# What the operator gives its device plugin by default, without CDI and with it.
OPERATORS = {"PASS_DEVICE_SPECS": "true", "FAIL_ON_INIT_ERROR": "true", "DEVICE_LIST_STRATEGY": "envvar", "DEVICE_ID_STRATEGY": "uuid", "NVIDIA_VISIBLE_DEVICES": "all",
             "NVIDIA_DRIVER_CAPABILITIES": "all", "MPS_ROOT": "/run/nvidia/mps", "MIG_STRATEGY": "single", "NVIDIA_MIG_MONITOR_DEVICES": "all", "HOST_ROOT": "/elsewhere"}
CDI = {"CDI_ENABLED": "true", "DEVICE_LIST_STRATEGY": "cdi-annotations,cdi-cri", "CDI_ANNOTATION_PREFIX": "cdi.k8s.io/", "NVIDIA_CDI_HOOK_PATH": "/usr/local/nvidia/toolkit/nvidia-cdi-hook"}
MPS = "version: v1\nsharing:\n  mps:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"
BASH = """#!/bin/bash
if [[ -z "$NODE_NAME" ]] && [[ "abc" == a* ]]; then
  export MIG_STRATEGY=single
fi
until [[ -f /run/nvidia/validations/driver-ready ]]; do sleep 1; done
set -o allexport
source /run/nvidia/validations/driver-ready
exec nvidia-device-plugin
"""
IMEX = "set -e; mkdir -p /imex/a/b; [[ -d /imex/a ]] && cp /licenses/LICENSE $(dirname /imex/a/b/c)/L && rm /imex/a/b/L && echo done"


SCRATCH = tempfile.TemporaryDirectory(prefix="tranche-rootfs.")


KILLS = int(os.environ.get("TRANCHE_KILLS", "100"))  # of the plugin; a fifth as many of the MPS owner


def answers(path):
    """Whether a program listens on the socket; one that a killed program left refuses."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


class World(unittest.TestCase):
    """The unpacked image, a simulated node of two GPUs, and the folders that manifests mount."""

    def setUp(self):
        self.scratch = tempfile.mkdtemp(dir=SCRATCH.name)
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.rootfs = Rootfs(SOURCE, BUILD, self.scratch)
        self.addCleanup(self.rootfs.stop_all)
        why = self.rootfs.why_not()
        if why:
            self.skipTest(why)
        put, folder = self.rootfs.put, self.rootfs.folder
        put("node/node.yaml", "gpus: {profile: H200, count: 2}\n")
        put("validations/driver-ready", DRIVER_READY)
        libraries = folder("driver/usr/lib/x86_64-linux-gnu")
        self.rootfs.driver(libraries, "libnvidia-ml.so.1", "libcuda.so.1")
        for name in ("libnvidia-ml", "libcuda"):
            os.rename(f"{libraries}/{name}.so.1", f"{libraries}/{name}.so.{DRIVER}")
            os.symlink(f"{name}.so.{DRIVER}", f"{libraries}/{name}.so.1")
        self.node = [[folder("node"), "/sim", ""]]
        self.env = {"TRANCHE_SIM_NODE": "/sim", "TRANCHE_SIM_PROFILES": "/profiles", "KUBELET_SOCKET": "", "TRANCHE_LOG_FORMAT": "json"}
        self.node.append([f"{BUILD}/standins/profiles", "/profiles", "ro"])
        self.driver = [[folder("driver"), "/driver-root", "ro"]]
        self.kubelets = [[folder("plugins"), PLUGINS, ""]]
        self.script = [[put("entrypoint.sh", ENTRYPOINT, 0o700), "/bin/entrypoint.sh", "ro"], [folder("validations"), "/run/nvidia/validations", ""]]
        # Enough of a device for who only looks whether it is there; making a real one takes a right that not every tester has.
        self.devices = [["/dev/null", f"/dev/{name}", ""] for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia1")]
        self.operators = [*self.devices, *self.node, *self.driver, *self.kubelets, *self.script, [folder("cdi"), "/var/run/cdi", ""], [folder("mps"), "/mps", ""]]

    def operator(self, more=None, binds=(), **options):
        """The device plugin as the operator starts it."""
        return self.rootfs.start(["/bin/sh", "-c", "/bin/entrypoint.sh"], {**self.env, **OPERATORS, **(more or {})}, [*self.operators, *binds], **options)

    def plugin(self, env=None, binds=None, **options):
        return self.rootfs.start(["nvidia-device-plugin"], {**self.env, **(env or {})}, [*self.node, *(self.driver if binds is None else binds), *self.kubelets], **options)

    @staticmethod
    def environment(running):
        with open(f"/proc/{running.pid()}/environ", "rb") as file:
            return dict(word.split("=", 1) for word in file.read().decode().split("\0") if "=" in word)


class Script(World):
    # Promise: nvidia-manifests: The plugin becomes process 1 and ends on SIGTERM.
    def test_makes_the_plugin_the_first_process_which_ends_well_on_sigterm(self):
        plugin = self.operator()
        plugin.until_says('"event":"driver.ready"')
        with open(f"/proc/{plugin.pid()}/cmdline") as file:
            self.assertEqual(file.read(), "nvidia-device-plugin\0", "row 2: the first process is the plugin, by its bare name")
        variables = self.environment(plugin)
        self.assertEqual((variables["module"], variables["DRIVER_ROOT_CTR_PATH"]), ("nvidia_fs", "/driver-root"), "row 7: variables that mean nothing to us are there")
        self.assertEqual(plugin.end(), 0, "row 20")

    # Promise: nvidia-manifests: The operator's script finds its tools and switches flags by modules.
    def test_finds_its_tools_and_switches_on_what_the_modules_say(self):
        plugin = self.operator(modules=["nvidia_fs", "gdrdrv"])
        plugin.until_says('"event":"driver.ready"')
        variables = self.environment(plugin)
        self.assertEqual([variables.get(name) for name in ("GDRCOPY_ENABLED", "GDS_ENABLED", "MOFED_ENABLED")], ["true"] * 3, "row 3")
        flags = json.loads(plugin.event("config.effective")["config"])["flags"]
        self.assertEqual([flags[name] for name in ("gdrcopyEnabled", "gdsEnabled", "mofedEnabled")], [True] * 3)

    # Promise: nvidia-manifests: The plugin serves with a root that cannot be written.
    def test_goes_on_without_a_writable_root(self):
        plugin = self.operator(modules=["nvidia_fs"], readonly=True)
        plugin.until_says('"event":"driver.ready"')
        self.assertNotIn("GDS_ENABLED", self.environment(plugin), "row 4: nothing could be noted, so nothing is on")
        self.assertIn("Read-only file system", plugin.said())
        self.assertEqual(plugin.end(), 0)

    # Promise: nvidia-manifests: Scripts of older operators run.
    def test_of_older_operators_in_bash_and_their_other_tools_run(self):
        self.rootfs.put("entrypoint.sh", BASH, 0o700)
        plugin = self.rootfs.start(["/bin/bash", "-c", "/bin/entrypoint.sh"], self.env, self.operators)
        plugin.until_says('"event":"driver.ready"')
        with open(f"/proc/{plugin.pid()}/cmdline") as file:
            self.assertEqual(file.read(), "nvidia-device-plugin\0", "row 5")
        self.assertEqual(json.loads(plugin.event("config.effective")["config"])["flags"]["migStrategy"], "single")
        self.assertEqual(plugin.end(), 0)
        imex = self.rootfs.start(["/bin/bash", "-c", IMEX])
        self.assertEqual((imex.wait(), imex.said()), (0, "done\n"), "row 29: the tools of the init container of 24.9")

    def test_finds_nothing_in_the_way_where_it_and_the_folders_of_cdi_are_mounted(self):
        for path in ("/bin/entrypoint.sh", "/run/cdi"):
            self.assertFalse(os.path.lexists(self.rootfs.root + path), f"row 6: {path}")
        plugin = self.operator(CDI)
        plugin.until_says('"event":"driver.ready"')
        self.assertTrue(until(lambda: os.path.exists(f"{self.scratch}/cdi/k8s.device-plugin.nvidia.com-gpu.json")), plugin.said()[-2000:])

    # Promise: nvidia-manifests: Variables alone give the configuration.
    def test_with_variables_alone_gives_the_configuration_that_they_say(self):
        plugin = self.operator({**CDI, "CONFIG_FILE": "/config/config.yaml"}, [[self.rootfs.put("configs/config.yaml", "flags: {migStrategy: mixed, plugin: {deviceIDStrategy: index}}\n"), "/config/config.yaml", "ro"]])
        plugin.until_says('"event":"config.effective"')
        flags = json.loads(plugin.event("config.effective")["config"])["flags"]
        mine = {key: value for key, value in flags.items() if key not in ("plugin", "gfd")}
        self.assertEqual(mine, {"migStrategy": "single", "failOnInitError": True, "mpsRoot": "/run/nvidia/mps", "nvidiaDriverRoot": "/run/nvidia/driver", "nvidiaDevRoot": "/", "gdrcopyEnabled": False,
                                "gdsEnabled": False, "mofedEnabled": False, "useNodeFeatureAPI": True, "deviceDiscoveryStrategy": "auto"}, "rows 7 and 26: variables beat the file")
        self.assertEqual(flags["plugin"], {"passDeviceSpecs": True, "deviceListStrategy": ["cdi-annotations", "cdi-cri"], "deviceIDStrategy": "uuid", "cdiAnnotationPrefix": "cdi.k8s.io/",
                                           "nvidiaCTKPath": "/usr/local/nvidia/toolkit/nvidia-cdi-hook", "containerDriverRoot": "/driver-root", "sharedDevicesAllocationPolicy": "distributed"})


class Programs(World):
    def test_are_found_by_their_names_and_keep_them(self):
        found = self.rootfs.start(["/bin/sh", "-c", "for name in " + " ".join(NVIDIAS) + "; do command -v $name; done"])
        self.assertEqual((found.wait(), found.said().split()), (0, [f"/usr/bin/{name}" for name in NVIDIAS]), "row 1")
        for name in NVIDIAS:
            usage = self.rootfs.start([name, "--help"])
            self.assertEqual(usage.wait(), 0)
            self.assertIn(name, usage.said())

    # Promise: nvidia-manifests: The driver is found wherever a driver root has it.
    def test_find_the_driver_wherever_a_driver_root_has_it(self):
        for kind in ("usr/lib64", "usr/lib/x86_64-linux-gnu", "lib64", "lib/x86_64-linux-gnu"):
            root = self.rootfs.folder(f"roots/{kind.replace('/', '-')}")
            self.rootfs.driver(f"{root}/{kind}", "libnvidia-ml.so.1")
            plugin = self.plugin({"DRIVER_ROOT_CTR_PATH": "/host", "NVIDIA_DRIVER_ROOT": "/"}, [[root, "/host", "ro"]])
            plugin.until_says('"event":"driver.ready"')
            self.assertEqual(plugin.end(), 0, kind)

    def test_find_what_the_hosts_ldconfig_has_made_known(self):
        self.rootfs.driver(f"{self.rootfs.root}/opt/injected", "libnvidia-ml.so.1")
        none = self.plugin(binds=[])
        none.until_says("driver.waiting")
        none.end()
        with open(f"{self.rootfs.root}/etc/ld.so.conf.d/00-nvcr-1.conf", "w") as file:
            file.write("/opt/injected\n")
        subprocess.run(["/sbin/ldconfig", "-r", self.rootfs.root], check=True, capture_output=True)
        plugin = self.plugin(binds=[])
        plugin.until_says('"event":"driver.ready"')
        self.assertEqual(plugin.end(), 0, "row 11")

    # Promise: nvidia-manifests: The programs never read the variables for visible devices.
    def test_never_ask_which_devices_they_see(self):
        seen = []
        machine = [os.path.dirname(self.rootfs.put("dmi/product_name", "Box 9\n")), "/sys/class/dmi/id", "ro"]
        for visible in ("void", "all", "", None):
            made = self.rootfs.start(["gpu-feature-discovery", "--oneshot", "--no-timestamp", "--output", "", "--use-node-feature-api=false"],
                                     {**self.env, "LD_LIBRARY_PATH": "/driver-root/usr/lib/x86_64-linux-gnu", "PATH": PATH, **({} if visible is None else {"NVIDIA_VISIBLE_DEVICES": visible})},
                                     [*self.node, *self.driver, machine], image_env=False)
            self.assertEqual(made.wait(), 0, made.said())
            seen.append([line for line in made.said().splitlines() if line.startswith("nvidia.com/")])
        self.assertIn("nvidia.com/gpu.count=2", seen[0])
        self.assertIn("nvidia.com/gpu.machine=Box-9", seen[0], "row 29: of all of /sys only this file's folder is there")
        self.assertEqual(seen, [seen[0]] * 4, "row 10")

    # Promise: nvidia-manifests: The plugin needs no rights, no shared memory and no port.
    def test_of_the_plugin_need_no_rights_no_shared_memory_and_no_port(self):
        self.assertFalse(os.path.exists(f"{self.rootfs.root}/dev/shm"), "row 33")
        plugin = self.plugin(capable=False)
        plugin.until_says('"event":"driver.ready"')
        with open(f"/proc/{plugin.pid()}/status") as file:
            self.assertIn("CapEff:\t0000000000000000\n", file.read(), "row 32")
        for table in ("tcp", "tcp6", "udp", "udp6"):
            with open(f"/proc/{plugin.pid()}/net/{table}") as file:
                self.assertEqual(len(file.readlines()), 1, f"row 31: {table}")
        self.assertTrue(until(lambda: os.path.exists(f"{self.scratch}/plugins/nvidia-gpu.sock")))
        self.assertEqual(plugin.end(), 0)

    # Promise: nvidia-manifests: The config manager and `mount-shm` need no driver and no rights.
    def test_of_the_config_manager_and_mount_shm_need_no_driver_and_no_rights(self):
        configs = [[self.rootfs.folder("available"), "/available-configs", "ro"], [self.rootfs.folder("config"), "/config", ""]]
        self.rootfs.put("available/a", MPS)
        once = self.rootfs.start(["config-manager"], {
            "ONESHOT": "true", "KUBECONFIG": "", "NODE_NAME": "n", "NODE_LABEL": "nvidia.com/device-plugin.config", "CONFIG_FILE_SRCDIR": "/available-configs", "CONFIG_FILE_DST": "/config/config.yaml",
            "DEFAULT_CONFIG": "", "FALLBACK_STRATEGIES": "empty", "SEND_SIGNAL": "false", "SIGNAL": "", "PROCESS_TO_SIGNAL": ""}, configs, capable=False)
        self.assertEqual(once.wait(), 0, once.said())
        self.assertEqual(os.readlink(f"{self.scratch}/config/config.yaml"), "/dev/null", "rows 14 and 16: no API server, no label, no default")
        for _ in range(2):
            mounts = self.rootfs.start(["mps-control-daemon", "mount-shm"], {}, [[self.rootfs.folder("mps"), "/mps", ""]], capable=False)
            self.assertEqual(mounts.wait(), 0, mounts.said())
        self.assertEqual(os.listdir(f"{self.scratch}/mps"), [], "row 17")


class Pods(World):
    """Several programs at once, and their ends."""

    def mps(self, config=None):
        driver = self.rootfs.folder("injected")
        self.rootfs.driver(driver, "libnvidia-ml.so.1", "libcuda.so.1", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server")
        binds = [*self.node, [self.rootfs.folder("mps"), "/mps", ""], [driver, "/injected", "ro"]]
        env = {**self.env, "LD_LIBRARY_PATH": "/injected", "PATH": f"{PATH}:/injected", "NODE_NAME": "n"}
        if config is not None:
            binds.append([self.rootfs.put("mps-config/config.yaml", config), "/config/config.yaml", "ro"])
            env["CONFIG_FILE"] = "/config/config.yaml"
        return self.rootfs.start(["mps-control-daemon"], env, binds)

    def serves(self, running):
        return until(lambda: running.said().count('"state":"serving"') == 2)

    # Promise: nvidia-manifests: MPS is idle without a configuration and serves with a file alone.
    def test_of_mps_idle_without_a_configuration_and_with_one_that_shares_nothing(self):
        for config in (None, "version: v1\n", "version: v1\nsharing: {}\n"):
            idle = self.mps(config)
            idle.until_says('"event":"mps.nothing_to_share"')
            self.assertEqual(idle.end(), 0, "row 18")

    # Promise: nvidia-manifests: MPS is idle without a configuration and serves with a file alone.
    def test_of_mps_serve_with_the_configuration_alone_and_end_soon(self):
        for name in (".ready", "nvidia.com/gpu/.started", "nvidia.com/gpu/pipe/control", "nvidia.com/gpu/log/control.log", "shm/left"):
            self.rootfs.put(f"mps/{name}", "")  # row 34: what NVIDIA's daemon leaves there
        running = self.mps(MPS)
        self.assertTrue(self.serves(running), running.said()[-3000:])
        self.assertEqual(running.end(), 0, "row 20")
        self.assertTrue(os.path.exists(f"{self.scratch}/mps/nvidia.com/gpu/pipe/control"), "row 34: nothing of theirs is taken away")

    # Promise: nvidia-manifests: MPS with a hung daemon ends within 30 seconds.
    def test_of_mps_whose_daemon_hangs_end_well_within_thirty_seconds(self):
        running = self.mps(MPS)
        self.assertTrue(self.serves(running), running.said()[-3000:])
        daemons = [int(pid) for pid in filter(str.isdigit, os.listdir("/proc")) if self.is_daemon_of(pid, running)]
        self.assertEqual(len(daemons), 2)
        for pid in daemons:
            os.kill(pid, signal.SIGSTOP)
        self.assertEqual(running.end(), 0, "row 20: daemons that answer nothing are ended")

    @staticmethod
    def is_daemon_of(pid, running):
        try:
            same = os.readlink(f"/proc/{pid}/ns/pid") == os.readlink(f"/proc/{running.pid()}/ns/pid")
            with open(f"/proc/{pid}/cmdline") as file:
                return same and file.read().split("\0")[:2] == ["/injected/nvidia-cuda-mps-control", "-f"]
        except OSError:
            return False

    # Promise: nvidia-manifests: Kills again and again leave a clean next start.
    def test_killed_again_and_again_leave_nothing_that_a_clean_start_minds(self):
        for i in range(KILLS):
            self.kill_after(self.operator({**CDI}), i % 10)
        plugin = self.operator({**CDI})
        plugin.until_says('"event":"driver.ready"')
        self.assertTrue(until(lambda: os.listdir(f"{self.scratch}/cdi") == ["k8s.device-plugin.nvidia.com-gpu.json"]), os.listdir(f"{self.scratch}/cdi"))
        with open(f"{self.scratch}/cdi/k8s.device-plugin.nvidia.com-gpu.json") as file:
            self.assertEqual(len(json.load(file)["devices"]), 2, "row 21: whole, whatever was half-written before")
        self.assertTrue(until(lambda: answers(f"{self.scratch}/plugins/nvidia-gpu.sock")), "row 21: it serves in the place of those before it")
        self.assertEqual(plugin.end(), 0)
        self.assertEqual(os.listdir(f"{self.scratch}/plugins"), [], "row 21: no socket of a killed one is left")
        for i in range(KILLS // 5):
            self.kill_after(self.mps(MPS), i % 10)
        running = self.mps(MPS)
        self.assertTrue(self.serves(running), running.said()[-3000:])
        self.assertEqual(running.end(), 0)

    @staticmethod
    def kill_after(running, lines):
        """When it has said so much, or all that it says."""
        until(lambda: running.pid() is not None and (running.said().count("\n") >= lines or "driver.ready" in running.said()))
        # The first process inside, as a runtime does. It would outlive `unshare` if that were killed right after the fork.
        os.kill(running.pid(), signal.SIGKILL)
        running.wait()  # unshare ends after it

    @staticmethod
    def first_word(running):
        try:
            with open(f"/proc/{running.pid()}/cmdline") as file:
                return file.read().split("\0")[0]
        except OSError:
            return ""

    # Promise: config-manager: Only the reader of the same pod is signalled.
    def test_of_the_sidecar_signal_the_reader_of_their_own_pod_and_no_other(self):
        available = [[self.rootfs.folder("available"), "/available-configs", "ro"]]
        self.rootfs.put("available/a", "version: v1\n")
        of_own, of_other = [[self.rootfs.folder("config-own"), "/config", ""]], [[self.rootfs.folder("config-other"), "/config", ""]]
        proc = [["/proc", "/proc", ""]]
        name = "mps-control-daemon-" + os.path.basename(self.scratch)
        words = [f"/usr/bin/{name}", "1000"]
        shutil.copy("/bin/sleep", f"{self.rootfs.root}/usr/bin/{name}")
        other = self.rootfs.start(words, {}, [*of_other, *proc], own_processes=False)
        own = self.rootfs.start(words, {}, [*of_own, *proc], own_processes=False)
        self.assertTrue(until(lambda: all(self.first_word(one) == words[0] for one in (own, other))))
        manager = self.rootfs.start(["config-manager"], {
            "ONESHOT": "false", "KUBECONFIG": "", "NODE_NAME": "n", "NODE_LABEL": "nvidia.com/device-plugin.config", "CONFIG_FILE_SRCDIR": "/available-configs", "CONFIG_FILE_DST": "/config/config.yaml",
            "DEFAULT_CONFIG": "a", "FALLBACK_STRATEGIES": "empty", "SEND_SIGNAL": "true", "SIGNAL": "1", "PROCESS_TO_SIGNAL": f"/usr/bin/{name}"}, [*available, *of_own, *proc], own_processes=False)
        self.assertIn(own.wait(), (-signal.SIGHUP, 128 + signal.SIGHUP), manager.said())
        self.assertIsNone(other.process.poll(), "row 15: of the same name, in another pod")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "--quiet", *sys.argv[1:]])

"""The image of kind's nodes, made without a registry: Debian's systemd and runc, kind's own files, the programs of build-programs, and the
images of a control plane, each with one program. `kind build node-image` leaves the same at the same places."""

import glob
import json
import os
import re
import shutil

from .image import Image
from .programs import Program, run, write
from .report import until

DEBIAN = "bookworm"  # the last whose systemd runs on cgroup v1
PACKAGES = ["systemd-sysv", "dbus", "conntrack", "iptables", "iproute2", "ethtool", "kmod", "ca-certificates", "jq", "procps", "runc", "containernetworking-plugins"]
CONTROL_PLANE = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"]
PROGRAMS = {"usr/bin": ["kubelet", "kubeadm", "kubectl"], "usr/local/bin": ["containerd", "containerd-shim-runc-v2", "ctr"]}
SCRIPTS = ["usr/local/bin/entrypoint", *(f"kind/bin/{name}.sh" for name in ("mount-product-files", "undo-mount-hacks", "create-kubelet-cgroup-v2"))]
# As in kind's images/base/Dockerfile: what systemd would start and a container has no use for.
UNWANTED = ["lib/systemd/system/multi-user.target.wants/*", "etc/systemd/system/*.wants/*", "lib/systemd/system/local-fs.target.wants/*", "lib/systemd/system/basic.target.wants/*",
            "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service", "lib/systemd/system/sockets.target.wants/*udev*", "lib/systemd/system/sockets.target.wants/*initctl*"]
# In place of kindnet. Each node has the same addresses for its pods: they reach every node and service by masquerading, and none of
# them asks for a pod of another node.
NETWORK = {"cniVersion": "1.0.0", "name": "bridge", "plugins": [
    {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": True}}]}
MANIFESTS = ["default-cni", "default-storage"]  # kind creates what is in them: here nothing that runs, since the network above is in the image
IMPORTER = "version = 3\ndisabled_plugins = ['io.containerd.cri.v1.images', 'io.containerd.cri.v1.runtime', 'io.containerd.grpc.v1.cri', 'io.containerd.nri.v1.nri']\n"


def make(binaries, scratch, archive):
    """The node's root folder as a tar file for `docker import`."""
    root = f"{scratch}/root"
    run("unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", DEBIAN, root)
    version = run(f"{binaries}/kubeadm", "version", "-o", "short").stdout.strip()
    _files(binaries, root, version)
    _units(root)
    _keep(binaries, scratch, root, _images(binaries, root, version))
    run("tar", "-C", root, "--exclude=./var/cache/apt/archives/*.deb", "--exclude=./var/lib/apt/lists/*", "-cf", f"{archive}.new", ".")
    os.rename(f"{archive}.new", archive)


def _files(binaries, root, version):
    shutil.copytree(f"{binaries}/kind-node", root, dirs_exist_ok=True)
    for script in SCRIPTS:
        os.chmod(f"{root}/{script}", 0o755)
    for folder, names in PROGRAMS.items():
        for name in names:
            shutil.copy(f"{binaries}/{name}", f"{root}/{folder}")
    write(f"{root}/kind/version", version)
    for name in MANIFESTS:
        write(f"{root}/kind/manifests/{name}.yaml", json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "kube-system"}}))
    write(f"{root}/etc/cni/net.d/10-bridge.conflist", json.dumps(NETWORK))
    os.makedirs(f"{root}/opt/cni")
    os.symlink("/usr/lib/cni", f"{root}/opt/cni/bin")
    os.makedirs(f"{root}/etc/kubernetes/manifests")
    # What this machine may lack: cgroup v2, and the right to a lower oom_score_adj and to higher limits.
    spec = json.loads(run(f"{binaries}/ctr", "oci", "spec").stdout)
    del spec["process"]["rlimits"]
    write(f"{root}/etc/containerd/cri-base.json", json.dumps(spec))
    run("sed", "-i", "s/restrict_oom_score_adj = false/restrict_oom_score_adj = true/", f"{root}/etc/containerd/config.toml")
    run("sed", "-i", "s/$/ --fail-cgroupv1=false/", f"{root}/etc/default/kubelet")


def _units(root):
    for pattern in UNWANTED:
        for path in glob.glob(f"{root}/{pattern}"):
            os.unlink(path)
    run("chroot", root, "systemctl", "enable", "kubelet.service", "containerd.service", "undo-mount-hacks.service")
    run("chroot", root, "systemctl", "mask", "systemd-binfmt.service")  # it would register programs at this machine's kernel


def _images(binaries, root, version):
    """By kubeadm's names; that of the pause container is in containerd's configuration. CoreDNS is left out: no test asks for a name."""
    listed = run(f"{binaries}/kubeadm", "config", "images", "list", "--kubernetes-version", version).stdout.split()
    names = {re.split("[/:]", name)[-2]: name for name in listed}
    for program in CONTROL_PLANE:
        image = Image(names[program], [program])
        image.file(f"/usr/bin/{program}", f"{binaries}/{program}")
        yield image
    proxy = Image(names["kube-proxy"], ["/usr/local/bin/kube-proxy"])
    proxy.file("/usr/local/bin/kube-proxy", f"{binaries}/kube-proxy")
    proxy.program("/usr/bin/xtables-nft-multi", shutil.which("xtables-nft-multi"))
    for name in ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"):
        proxy.link(f"/usr/bin/{name}", "xtables-nft-multi")
    for extension in glob.glob("/usr/lib/*-linux-gnu/xtables/*.so"):
        proxy.file(extension, os.path.realpath(extension))
    yield proxy
    with open(f"{root}/etc/containerd/config.toml") as config:
        pause = Image(re.search('sandbox_image = "(.*)"', config.read()).group(1), ["/bin/sleep", "1000000"])
    pause.busybox()
    yield pause


def _keep(binaries, scratch, root, images):
    """Imports them into the node's containerd, which unpacks each when a pod asks for it."""
    socket, config = f"{scratch}/containerd.sock", f"{scratch}/containerd.toml"
    write(config, IMPORTER)
    containerd = Program("containerd", [f"{binaries}/containerd", "-c", config, "--address", socket, "--root", f"{root}/var/lib/containerd", "--state", f"{scratch}/state"],
                         f"{scratch}/containerd.log")
    ctr = [f"{binaries}/ctr", "--address", socket, "--namespace", "k8s.io"]
    try:
        until("containerd to answer", lambda: run(*ctr, "version", check=False).returncode == 0)
        for image in images:
            image.save(f"{scratch}/image.tar")
            run(*ctr, "images", "import", "--no-unpack", f"{scratch}/image.tar")
    finally:
        containerd.stop()

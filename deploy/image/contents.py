"""What is in the image: our programs, what they load, and the little that programs expect around them. No shell, unless
it is the flavour `compat`, for manifests that were written for NVIDIA's image and start it by one."""

import os
import shutil
import subprocess
import tempfile

import debian
from tree import Tree

PROGRAMS = ["tranche", "tranche-keeper"]
# The names of NVIDIA's programs that this one answers to (src/cli/commands.h).
NVIDIAS = ["nvidia-device-plugin", "mps-control-daemon", "gpu-feature-discovery", "config-manager", "nvidia-mig-parted", "nvidia-mig-manager"]
# Opened at run time: for the API server. And what NVIDIA's programs and libraries expect of a C library when a container
# runtime or a mounted driver root brings them in: they run on ours.
OPENED = ["libcurl.so.4", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libresolv.so.2", "libgcc_s.so.1"]
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
# Tools that NVIDIA's manifests call are applets of busybox, in a folder of their own at the end of PATH as in NVIDIA's image.
BUSYBOX = "/busybox"
BASH = b'#!/busybox/sh\nexec /busybox/sh "$@"\n'
MERGED = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


def stripped(program, triplet):
    strip = shutil.which(f"{triplet}-strip")
    if strip is None:
        raise debian.Missing(f"there is no {triplet}-strip; install binutils (of another architecture: binutils-{triplet.replace('_', '-')})")
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run([strip, "-s", "-o", out.name, program], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise debian.Missing(f"{program} cannot be stripped: {done.stderr.strip()}")
        with open(out.name, "rb") as file:
            return file.read()


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Contents:
    """`tree`; `sources`: path in the image -> path in the system; `packages`: path in the image -> Debian package."""

    def __init__(self, programs, system, compat):
        self.tree, self.system, self.sources, self.compat = Tree(), system, {}, compat
        self._folders()
        for name in PROGRAMS:
            path = os.path.join(programs, name)
            if not os.access(path, os.X_OK):
                raise debian.Missing(f"{path} is not there; build it first (./dev build)")
            self.tree.file(f"/usr/bin/{name}", stripped(path, system.triplet), 0o755)
        for name in NVIDIAS:
            self.tree.link(f"/usr/bin/{name}", "tranche")
        self._libraries([os.path.join(programs, "tranche")], [system.library(soname) for soname in OPENED])
        self._certificates()
        if compat:
            self._busybox()
        owner = system.owners(self.sources.values())
        self.packages = {path: owner[source] for path, source in self.sources.items() if source in owner}
        self.described = system.describe(self.packages.values())
        self._papers()

    def _folders(self):
        tree = self.tree
        for path in ("dev", "etc", "proc", "run", "sys", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "var/lib", "etc/ld.so.conf.d"):
            tree.folder(path)
        tree.folder("tmp", 0o1777)
        tree.folder("root", 0o700)
        for path, target in MERGED.items():
            tree.link(path, target)
        tree.link("var/run", "/run")
        tree.file("etc/passwd", b"root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n")
        tree.file("etc/group", b"root:x:0:\nnogroup:x:65534:\n")
        tree.file("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")
        tree.file("etc/ld.so.conf", b"include /etc/ld.so.conf.d/*.conf\n")
        # By these the container toolkit and scanners identify the owner of these files.
        for path in ("/etc/debian_version", "/etc/os-release"):
            tree.file(path, read(path))

    def _own(self, path, source, mode):
        """A file of the system, at its place in the image."""
        self.tree.file(path, read(self.system.place(source)), mode)
        self.sources[path] = source

    def _library(self, path):
        real = self.system.real(path)
        place, target = debian.merged(path), debian.merged(real)
        self._own(target, real, 0o755)
        if place == target:
            return
        folder = os.path.dirname(place)
        self.tree.link(place, os.path.basename(target) if os.path.dirname(target) == folder else os.path.relpath(target, folder))

    def _libraries(self, programs, opened):
        paths = set(opened)
        for path in [*programs, *map(self.system.place, opened)]:
            paths.update(self.system.libraries_of(path))
        for path in sorted(paths):
            self._library(path)

    def _certificates(self):
        if not os.path.exists(CERTIFICATES):
            raise debian.Missing(f"{CERTIFICATES} is not there; install ca-certificates")
        self.tree.file(CERTIFICATES, read(CERTIFICATES))

    def _busybox(self):
        program = self.system.real("/bin/busybox")
        here = self.system.place(program)
        if not os.path.exists(here) or self.system.libraries_of(here):
            raise debian.Missing("the flavour compat needs a static busybox; install busybox-static")
        self._own(f"{BUSYBOX}/busybox", program, 0o755)
        for applet in self.system.run(here, "--list").split():
            if applet != "busybox":
                self.tree.link(f"{BUSYBOX}/{applet}", "busybox")
        self.tree.link("/usr/bin/sh", f"{BUSYBOX}/sh")
        # Debian's busybox has no applet of that name; manifests of GPU Operator 25.3 and older call it.
        self.tree.file("/usr/bin/bash", BASH, 0o755)

    def _papers(self):
        """Licences, and the packages as scanners of images look for them."""
        for package, known in self.described.items():
            self.licence(package)
            self.tree.file(f"/var/lib/dpkg/status.d/{package}", known["status"].encode())
        self.tree.file("/licenses/LICENSE", read(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../LICENSE")))

    def licence(self, package):
        """Of a package of the system, or of this machine's cross compiler."""
        paper = f"/usr/share/doc/{package}/copyright"
        for here in (self.system.place(paper), paper):
            if os.path.exists(here):
                self.tree.file(paper, read(here))
                return

"""What a Debian knows, this machine's own or one that deploy/image/sysroot unpacked: which libraries a program loads, which
package a file is of, what that package is."""

import os
import re
import subprocess


class Missing(Exception):
    """Something that the image needs is missing; the text says what to do."""


def output(*argv, check=True):
    env = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    if check and done.returncode != 0:
        raise Missing(f"{' '.join(argv[:3])}: {done.stderr.strip() or 'it failed'}")
    return done.stdout


def merged(path):
    """The path as it is where /bin, /sbin and /lib* are links into /usr, as in the image."""
    return re.sub(r"^/(bin|sbin|lib|lib32|lib64|libx32)/", r"/usr/\1/", path)


def machine_of(program):
    """The processor that an ELF file is for, as in the name of Debian's folder of libraries."""
    with open(program, "rb") as file:
        head = file.read(20)
    machine = {62: "x86_64", 183: "aarch64"}.get(int.from_bytes(head[18:20], "little")) if head[:5] == b"\x7fELF\2" else None
    if machine is None:
        raise Missing(f"{program} is not a program for x86-64 or arm64")
    return machine


FIELDS = ["Package", "Version", "Architecture", "source:Package", "source:Version", "Maintainer", "Homepage"]


class System:
    """The Debian below `root`, "" for this machine's own. Paths are those that the system has when it runs."""

    def __init__(self, root, machine):
        self.root, self.machine = os.path.abspath(root) if root else "", machine
        self.triplet = f"{machine}-linux-gnu"
        self.query = ["dpkg-query", f"--admindir={self.root}/var/lib/dpkg"]

    def place(self, path):
        """Where this machine has a file of the system."""
        return self.root + path

    def real(self, path):
        return os.path.realpath(self.place(path)).removeprefix(self.root)

    def run(self, program, *arguments):
        """What a program for the system's processor prints; `program` is a path of this machine."""
        emulator = [] if self.machine == os.uname().machine else [f"qemu-{self.machine}", "-L", self.root]
        return output(*emulator, program, *arguments)

    def library(self, soname):
        for folder in ("/lib", "/usr/lib"):
            path = f"{folder}/{self.triplet}/{soname}"
            if os.path.exists(self.place(path)):
                return path
        raise Missing(f"there is no {soname} in {self.place('/usr/lib')}/{self.triplet}; install the package that has it")

    def libraries_of(self, program):
        """Every shared library that a program or library, a path of this machine, loads, the loader among them."""
        found, left = set(), [program]
        while left:
            shown = output("readelf", "-dlW", left.pop())
            paths = {*re.findall(r"interpreter: (/.+)\]", shown), *map(self.library, re.findall(r"\(NEEDED\).*\[(.+)\]", shown))} - found
            found |= paths
            left += map(self.place, paths)
        return sorted(found)

    def owners(self, paths):
        """Path -> package, for the paths that a package has."""
        asked = {}
        for path in paths:
            for spelling in {path, merged(path), re.sub(r"^/usr/(bin|sbin|lib|lib32|lib64|libx32)/", r"/\1/", path)}:
                asked[spelling] = path
        found = {}
        for line in (output(*self.query, "-S", *sorted(asked), check=False) if asked else "").splitlines():
            packages, _, spelling = line.partition(": ")
            if spelling in asked and not packages.startswith("diversion "):
                found[asked[spelling]] = packages.split(",")[0].split(":")[0]
        return found

    def describe(self, packages):
        """Package -> its fields and its paragraph in dpkg's status."""
        known = {}
        for package in sorted(set(packages)):
            shown = output(*self.query, "-W", "-f=" + "\\t".join(f"${{{field}}}" for field in FIELDS) + "\\n", package)
            values = dict(zip(FIELDS, shown.splitlines()[0].split("\t")))
            values["status"] = output(*self.query, "-s", package)
            known[package] = values
        return known

    def installed(self, package):
        return output(*self.query, "-W", "-f=${db:Status-Status}", package, check=False) == "installed"

"""What this machine's Debian knows: which libraries a program loads, which package a file is of, what that package is."""

import os
import re
import subprocess


class Missing(Exception):
    """Something that the image needs is not on this machine; the text says what to do."""


def output(*argv, check=True):
    env = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    if check and done.returncode != 0:
        raise Missing(f"{' '.join(argv[:3])}: {done.stderr.strip() or 'it failed'}")
    return done.stdout


def merged(path):
    """The path as it is where /bin, /sbin and /lib* are links into /usr, as in the image."""
    return re.sub(r"^/(bin|sbin|lib|lib32|lib64|libx32)/", r"/usr/\1/", path)


def libraries_of(program):
    """Paths, as the loader finds them, of every shared library that a program or library loads, the loader among them."""
    listed = output("ldd", program, check=False)
    lacking = re.findall(r"^\s*(\S+) => not found", listed, re.MULTILINE)
    if lacking:
        raise Missing(f"{program} needs {', '.join(lacking)}, which this machine lacks; install what has it")
    return sorted(set(re.findall(r"(?:=> |^\s*)(/\S+) \(0x", listed, re.MULTILINE)))


def library(soname):
    """Where the loader's cache has a library of this machine's own architecture."""
    for line in output("/sbin/ldconfig", "-p").splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.split(" ")[0] == soname and "x32" not in name and machine_of(path) == machine_of("/proc/self/exe"):
            return path
    raise Missing(f"there is no {soname} on this machine")


def machine_of(path):
    with open(path, "rb") as file:
        head = file.read(20)
    return head[4:5] + head[18:20]  # 32 or 64 bits, and for which processor


def owners(paths):
    """Path -> package, for the paths that a package has."""
    asked = {}
    for path in paths:
        for spelling in {path, merged(path), re.sub(r"^/usr/(bin|sbin|lib|lib32|lib64|libx32)/", r"/\1/", path)}:
            asked[spelling] = path
    found = {}
    for line in output("dpkg-query", "-S", *sorted(asked), check=False).splitlines():
        packages, _, spelling = line.partition(": ")
        if spelling in asked and not packages.startswith("diversion "):
            found[asked[spelling]] = packages.split(",")[0].split(":")[0]
    return found


FIELDS = ["Package", "Version", "Architecture", "source:Package", "source:Version", "Maintainer", "Homepage"]


def describe(packages):
    """Package -> its fields and its paragraph in dpkg's status."""
    known = {}
    for package in sorted(set(packages)):
        shown = output("dpkg-query", "-W", "-f=" + "\\t".join(f"${{{field}}}" for field in FIELDS) + "\\n", package)
        values = dict(zip(FIELDS, shown.splitlines()[0].split("\t")))
        values["status"] = output("dpkg-query", "-s", package)
        known[package] = values
    return known


def installed(package):
    return output("dpkg-query", "-W", "-f=${db:Status-Status}", package, check=False) == "installed"

#!/usr/bin/env python3
"""The image that deploy/image/build makes of the programs of this build: the same bytes every time, small, complete, with
nothing in it that it should not have. Needs neither root nor a network."""

import concurrent.futures
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SOURCE = os.environ["TRANCHE_SOURCE"]
BUILD = os.environ["TRANCHE_BUILD"]
NVIDIAS = {"nvidia-device-plugin", "mps-control-daemon", "gpu-feature-discovery", "config-manager", "nvidia-mig-parted", "nvidia-mig-manager"}


def build(output, *more, programs=f"{BUILD}/bin", umask=0o022, **env):
    return subprocess.run([f"{SOURCE}/deploy/image/build", "--programs", programs, "-o", output, *more], capture_output=True, text=True, check=False,
                          umask=umask, env={**os.environ, **env})


class Image:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        with tarfile.open(fileobj=io.BytesIO(self.bytes)) as tar:
            self.parts = {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}
        self.index = json.loads(self.parts["index.json"])
        self.manifest = json.loads(self.blob(self.index["manifests"][0]["digest"]))
        self.config = json.loads(self.blob(self.manifest["config"]["digest"]))
        self.layer = self.blob(self.manifest["layers"][0]["digest"])
        with tarfile.open(fileobj=io.BytesIO(self.layer)) as tar:
            self.entries = {entry.name: entry for entry in tar}
            self.files = {name: tar.extractfile(entry).read() for name, entry in self.entries.items() if entry.isfile()}

    def blob(self, digest):
        data = self.parts[digest.replace("sha256:", "blobs/sha256/")]
        assert hashlib.sha256(data).hexdigest() == digest.split(":")[1], f"{digest} is not what its name says"
        return data

    def resolve(self, path, depth=0):
        """Where a path ends after the image's own links; None where nothing is."""
        if depth > 20:
            return None
        parts = [part for part in path.split("/") if part]
        at = ""
        for number, part in enumerate(parts):
            at = f"{at}/{part}".lstrip("/")
            entry = self.entries.get(at)
            if entry is None:
                return None
            if entry.issym():
                target = entry.linkname if entry.linkname.startswith("/") else os.path.normpath(os.path.join(os.path.dirname(at), entry.linkname))
                return self.resolve("/".join([target, *parts[number + 1:]]), depth + 1)
        return at

    def programs(self):
        return {name: data for name, data in self.files.items() if data[:4] == b"\x7fELF"}


def needed(data):
    """The libraries that an ELF file names, and its interpreter."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        shown = subprocess.run(["readelf", "-dlW", file.name], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", shown), re.findall(r"interpreter: (.+)\]", shown)


class TheImage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp()
        cls.images, cls.said = {}, {}
        other = f"{cls.scratch}/elsewhere"
        shutil.copytree(f"{BUILD}/bin", f"{other}/bin")
        if os.path.exists(f"{BUILD}/build.ninja"):
            os.symlink(f"{BUILD}/build.ninja", f"{other}/build.ninja")
        now = {"SOURCE_DATE_EPOCH": "1000000000"}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            made = {"plain": pool.submit(build, f"{cls.scratch}/plain.tar", **now), "compat": pool.submit(build, f"{cls.scratch}/compat.tar", "--compat", **now),
                    "again": pool.submit(build, f"{cls.scratch}/again.tar", programs=f"{other}/bin", umask=0o077, TZ="Asia/Tokyo", LC_ALL="C.UTF-8", **now)}
        for name, future in made.items():
            assert future.result().returncode == 0, future.result().stderr
        for flavour in ("plain", "compat"):
            cls.said[flavour], cls.images[flavour] = made[flavour].result().stdout, Image(f"{cls.scratch}/{flavour}.tar")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch)

    # Promise: image: The same inputs give the same bytes.
    def test_is_the_same_again_from_copies_of_the_programs_at_another_time_and_place(self):
        self.assertEqual(Image(f"{self.scratch}/again.tar").bytes == self.images["plain"].bytes, True, "two builds differ")
        with open(f"{self.scratch}/again.spdx.json", "rb") as one, open(f"{self.scratch}/plain.spdx.json", "rb") as other_paper:
            self.assertEqual(one.read() == other_paper.read(), True, "two papers differ")

    def test_carries_no_trace_of_who_built_it_and_when(self):
        for name, image in self.images.items():
            for path, entry in image.entries.items():
                self.assertEqual((entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime), (0, 0, "", "", 1000000000), f"{name}: {path}")
            self.assertEqual(list(image.entries), sorted(image.entries), name)
            self.assertEqual(image.config["created"], "2001-09-09T01:46:40Z")

    # Promise: image: The image has at most 40 MB and the build prints its size.
    def test_is_at_most_40_mb_and_says_how_large(self):
        for name, image in self.images.items():
            size = sum(len(data) for data in image.files.values())
            self.assertLessEqual(size, 40_000_000, name)
            self.assertIn(f"{size / 1e6:.1f} MB", self.said[name])

    # Promise: image: An image that is too large is not made and its largest files are named.
    def test_that_is_too_large_is_not_made_and_the_largest_files_are_named(self):
        done = build(f"{self.scratch}/large.tar", "--limit", "1000000")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"may be 1\.0 MB; the largest: /usr/\S+ [0-9.]+ MB")
        self.assertFalse(os.path.exists(f"{self.scratch}/large.tar"))

    # Promise: image: Every library that a file names is in the image.
    def test_has_every_library_that_its_programs_and_libraries_name(self):
        for name, image in self.images.items():
            self.assertTrue({"usr/bin/tranche", "usr/bin/tranche-keeper"} <= set(image.files), name)
            for path, data in image.programs().items():
                libraries, interpreters = needed(data)
                for wanted in interpreters:
                    self.assertIn(image.resolve(wanted), image.files, f"{name}: {path} needs {wanted}")
                if os.path.basename(path).startswith("tranche"):  # all else is in the program; a second libstdc++ costs 1 MB in each process
                    self.assertEqual([soname for soname in libraries if not re.match(r"lib[cm]\.so|ld-linux", soname)], [], f"{name}: {path}")
                for soname in libraries:
                    places = [image.resolve(f"{folder}/{soname}") for folder in ("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")]
                    self.assertTrue(any(place in image.files for place in places), f"{name}: {path} needs {soname}")

    # Promise: image: NVIDIA's names are there and the driver's names are free.
    def test_answers_to_nvidias_names_and_leaves_the_names_of_the_driver_free(self):
        for name, image in self.images.items():
            for program in NVIDIAS:
                self.assertEqual(image.resolve(f"/bin/{program}"), "usr/bin/tranche", name)
            taken = [path for path in image.entries if re.search(r"/nvidia-(smi|cuda-mps-)|libnvidia|libcuda", path)]
            self.assertEqual(taken, [], name)
            self.assertNotIn("usr/bin/entrypoint.sh", image.entries)

    # Promise: image: The image has a shell only in the flavor `compat`.
    def test_has_a_shell_only_where_that_is_its_purpose(self):
        plain, compat = self.images["plain"], self.images["compat"]
        self.assertEqual([path for path in plain.entries if re.search(r"(^|/)(sh|bash|dash|ash|busybox)$", path)], [])
        self.assertEqual(compat.resolve("/bin/sh"), "busybox/busybox")
        self.assertTrue(compat.files["usr/bin/bash"].startswith(b"#!/busybox/sh\n"))
        for tool in ("lsmod", "grep", "cat", "sleep", "echo", "rm", "mkdir", "dirname", "cp"):
            self.assertEqual(compat.resolve(f"/busybox/{tool}"), "busybox/busybox")

    def test_is_started_as_nvidias_is(self):
        for name, image in self.images.items():
            config = image.config["config"]
            environment = dict(word.split("=", 1) for word in config["Env"])
            self.assertEqual((config["User"], config["WorkingDir"], "Cmd" in config), ("0:0", "/", False), name)
            self.assertEqual((environment["NVIDIA_VISIBLE_DEVICES"], environment["NVIDIA_DRIVER_CAPABILITIES"], environment["NVIDIA_DISABLE_REQUIRE"]),
                             ("all", "compute,utility", "true"), name)
            self.assertNotIn("CUDA_VERSION", environment)
            self.assertIn("usr/share/tranche/sbom.spdx.json", image.files)
            self.assertIn("licenses/LICENSE", image.files)
            self.assertIn("etc/debian_version", image.files)
            self.assertIn(b"BEGIN CERTIFICATE", image.files["etc/ssl/certs/ca-certificates.crt"])
        self.assertEqual(self.images["compat"].config["config"]["Entrypoint"], ["nvidia-device-plugin"])
        self.assertEqual(self.images["plain"].config["config"]["Entrypoint"], ["tranche"])

    # Promise: image: The image has what the driver's programs and libraries name.
    def test_has_what_the_drivers_programs_and_libraries_name(self):
        # docs/internals/evidence/driver.md; no version of the C library newer than 2.9 is asked for.
        for name, image in self.images.items():
            for soname in ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"):
                self.assertIn(image.resolve(f"/lib/x86_64-linux-gnu/{soname}") or image.resolve(f"/lib/aarch64-linux-gnu/{soname}"), image.files, f"{name}: {soname}")

    def test_says_what_it_is_in_the_words_that_others_look_for(self):
        wanted = {"name", "vendor", "version", "release", "summary", "description", "io.k8s.display-name", *(f"org.opencontainers.image.{key}" for key in (
            "title", "description", "version", "revision", "created", "licenses", "base.name"))}
        for name, image in self.images.items():
            labels = image.config["config"]["Labels"]
            self.assertEqual({key for key in wanted if key not in labels}, set(), name)
            self.assertEqual((labels["vendor"], labels["org.opencontainers.image.licenses"]), ("Tranche", "Apache-2.0"))

    # Promise: image: The image is made without git and under any name.
    def test_is_made_without_git_too(self):
        programs = f"{self.scratch}/no-git"
        os.makedirs(programs)
        for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"):
            for name in os.listdir(folder):
                if name != "git" and not os.path.lexists(f"{programs}/{name}"):
                    os.symlink(f"{folder}/{name}", f"{programs}/{name}")
        python = f"{programs}/python3"
        if os.path.lexists(python):
            os.unlink(python)
        os.symlink(sys.executable, python)
        made = build(f"{self.scratch}/no-git.tar", PATH=programs)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(Image(f"{self.scratch}/no-git.tar").config["config"]["Labels"]["release"], "N/A")

    # Promise: image: The Dockerfile gives the same settings.
    def test_has_the_settings_that_the_dockerfile_gives(self):
        with open(f"{SOURCE}/deploy/image/Dockerfile") as file:
            stages = re.split(r"^FROM ", file.read().replace("\\\n", " "), flags=re.MULTILINE)[2:]
        self.assertEqual([stage.splitlines()[0] for stage in stages], ["scratch AS bare", "bare AS compat", "bare"])
        bare, compat, plain = map(self.settings_of, stages)
        for name, stage in (("compat", compat), ("plain", plain)):
            config = self.images[name].config["config"]
            labels = bare["LABEL"] | stage["LABEL"]
            for key, value in config["Labels"].items():
                if key == "org.opencontainers.image.created":
                    continue  # an engine writes down when it made an image
                self.assertEqual(labels.get(key), {"release": "$REVISION", "org.opencontainers.image.revision": "$REVISION"}.get(key, value), f"{name}: {key}")
            self.assertEqual(bare["ENV"] | stage["ENV"], dict(each.split("=", 1) for each in config["Env"]), name)
            self.assertEqual(json.loads(stage["ENTRYPOINT"]), config["Entrypoint"])
            self.assertEqual([(bare | stage)[word] for word in ("USER", "WORKDIR")], [config["User"], config["WorkingDir"]])

    @staticmethod
    def settings_of(stage):
        """LABEL and ENV of a stage as mappings, its other words as they stand."""
        words = dict(re.findall(r"^([A-Z]+) (.*)$", stage, re.MULTILINE))
        return words | {"LABEL": dict(re.findall(r'([a-zA-Z0-9_.-]+)="([^"]*)"', words.get("LABEL", ""))), "ENV": dict(each.split("=", 1) for each in words.get("ENV", "").split())}

    # Promise: image: The image is made without git and under any name.
    def test_takes_a_name_of_any_registry_and_tag(self):
        name = "registry.example:5000/a/b-c/tranche:v1_x.y-compat"
        self.assertEqual(build(f"{self.scratch}/named.tar", "--name", name).returncode, 0)
        annotations = Image(f"{self.scratch}/named.tar").index["manifests"][0]["annotations"]
        self.assertEqual((annotations["io.containerd.image.name"], annotations["org.opencontainers.image.ref.name"]), (name, "v1_x.y-compat"))

    # Promise: image: The SBOM names every file and its package.
    # Promise: image: The licenses of what is linked into the programs are in the image.
    def test_names_in_its_paper_every_file_and_the_package_that_it_is_of(self):
        image = self.images["compat"]
        paper = json.loads(image.files["usr/share/tranche/sbom.spdx.json"])
        with open(f"{self.scratch}/compat.spdx.json", "rb") as beside:
            self.assertEqual(json.loads(beside.read()), paper)
        listed = {file["fileName"][2:]: file for file in paper["files"]}
        self.assertEqual(set(listed), set(image.files) - {"usr/share/tranche/sbom.spdx.json"})
        for path, file in listed.items():
            sums = {entry["algorithm"]: entry["checksumValue"] for entry in file["checksums"]}
            self.assertEqual(sums["SHA256"], hashlib.sha256(image.files[path]).hexdigest(), path)
        owner = {link["relatedSpdxElement"]: link["spdxElementId"] for link in paper["relationships"] if link["relationshipType"] == "CONTAINS"}
        names = {package["SPDXID"]: package for package in paper["packages"]}
        for path in image.programs():
            package = names[owner[listed[path]["SPDXID"]]]
            self.assertEqual(package["name"] == "tranche", path.startswith("usr/bin/tranche"), f"{path}: {package['name']}")
            self.assertRegex(package["versionInfo"], r"^[0-9]")
        linked = {names[link["relatedSpdxElement"]]["name"] for link in paper["relationships"] if link["relationshipType"] == "STATIC_LINK"}
        self.assertTrue({"libgrpc-dev", "libyaml-cpp-dev", "nlohmann-json3-dev"} <= linked, linked)
        self.assertEqual([name for name in linked if f"usr/share/doc/{name}/copyright" not in image.files], [])

    # Promise: image: `tranche` runs with nothing but the image's files.
    def test_runs_with_nothing_but_its_own_files(self):
        for name, words in (("plain", ["/usr/bin/tranche", "--version"]), ("compat", ["/bin/bash", "-c", "[[ -n x ]] && exec tranche --version"])):
            root = f"{self.scratch}/{name}-root"
            with tarfile.open(fileobj=io.BytesIO(self.images[name].layer)) as tar:
                tar.extractall(root)
            done = subprocess.run(["unshare", "--user", "--map-root-user", "--root", root, *words], capture_output=True, text=True, check=False,
                                  env={"PATH": "/usr/bin:/busybox"})
            if "unshare failed" in done.stderr or "Operation not permitted" in done.stderr:
                self.skipTest(f"no user namespaces here: {done.stderr.strip()}")
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertRegex(done.stdout, r"^tranche [0-9]+\.[0-9]+\.[0-9]+( commit [0-9a-f]+ of \S+)?\n$")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "--quiet"])

#!/usr/bin/env python3
"""What scripts/release makes of a commit and of two images, here small ones that this test makes: a shell in place of tranche."""

import base64
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

import yaml

SOURCE = os.environ["TRANCHE_SOURCE"]
sys.path.insert(0, f"{SOURCE}/deploy/image")
sys.dont_write_bytecode = True
import oci  # noqa: E402
from tree import Tree  # noqa: E402

with open(f"{SOURCE}/CMakeLists.txt") as lists:
    VERSION = re.search(r"^project\(tranche VERSION (\S+)", lists.read(), re.MULTILINE)[1]
BASE = f"tranche-{VERSION}"
NEEDED = ["scripts/release", "deploy", "CMakeLists.txt", "CHANGELOG.md", "LICENSE"]
IDENTITY = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "A"), ("EMAIL", "a@example.org"), ("DATE", "1000000000 +0000"))}


def run(*argv, cwd=None, umask=-1, data=None, **env):
    return subprocess.run(argv, cwd=cwd, umask=umask, input=data, capture_output=True, check=False, env={**os.environ, **IDENTITY, **env})


def git(repository, *words):
    done = run("git", "-C", repository, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def repository_of(folder):
    """A repository that has what the release reads, of this tree as it is now."""
    os.makedirs(folder)
    assert run("cp", "-a", "--parents", *NEEDED, folder, cwd=SOURCE).returncode == 0
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def image(folder, architecture, revision):
    """In which /bin/sh is called tranche, with what it loads."""
    tree, shell, libraries = Tree(), os.path.realpath("/bin/sh"), "usr/lib/x86_64-linux-gnu"
    tree.file("usr/bin/tranche", read(shell), 0o755)
    for path in set(re.findall(r"(/\S+) \(0x", run("ldd", shell).stdout.decode())):
        name = os.path.basename(path)
        real = name if name.startswith("ld-linux") else f"{name}.real"
        tree.file(f"{libraries}/{real}", read(path), 0o755)
        if real != name:
            tree.link(f"{libraries}/{name}", real)
    tree.file("usr/share/doc/libc6/copyright", b"of the C library")
    layout = oci.Layout()
    made = layout.image(tree.layer(0), {}, architecture, 0, {"org.opencontainers.image.revision": revision})
    with open(f"{folder}/{architecture}.tar", "wb") as file:
        file.write(layout.archive(made, "a:b", 0))
    with open(f"{folder}/{architecture}.spdx.json", "w") as file:
        json.dump({"packages": [{"externalRefs": [{"referenceLocator": f"pkg:deb/debian/libc6@1?arch={architecture}"}]}, {"name": "tranche"}]}, file)


class Archive:
    """An archive in OCI's layout, each of whose blobs is what its name says."""

    def __init__(self, path):
        self.files = oci.unpacked(read(path))
        for name, data in self.files.items():
            if name.startswith("blobs/"):
                assert hashlib.sha256(data).hexdigest() == os.path.basename(name), name
        [self.top] = json.loads(self.files["index.json"])["manifests"]
        self.content = self.json(self.top)

    def blob(self, descriptor):
        data = self.files[oci.place(descriptor)]
        assert len(data) == descriptor["size"]
        return data

    def json(self, descriptor):
        return json.loads(self.blob(descriptor))


class TheRelease(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp()
        cls.repository, cls.images, cls.key, cls.dist = (f"{cls.scratch}/{name}" for name in ("repository", "images", "key.pem", "dist"))
        repository_of(cls.repository)
        os.makedirs(cls.images)
        for architecture in ("amd64", "arm64"):
            image(cls.images, architecture, git(cls.repository, "rev-parse", "HEAD"))
        assert run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", cls.key).returncode == 0
        cls.done = cls.release("--key", cls.key, "--url", "https://example.org/r/", "--repository", "example.org/a/tranche", "-o", cls.dist)
        assert cls.done.returncode == 0, cls.done.stderr.decode()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch)

    @classmethod
    def release(cls, *words, repository=None, version=VERSION, **more):
        return run(f"{repository or cls.repository}/scripts/release", version, "--images", cls.images, *words, **more)

    def refused(self, done, *texts):
        self.assertEqual(done.returncode, 1)
        for text in texts:
            self.assertIn(text, done.stderr.decode())

    def archive(self, name):
        return Archive(f"{self.dist}/{name}")

    def verify(self, data, signature):
        with tempfile.NamedTemporaryFile() as file:
            file.write(base64.b64decode(signature, validate=True))
            file.flush()
            done = run("openssl", "dgst", "-sha256", "-verify", f"{self.dist}/cosign.pub", "-signature", file.name, data=data)
        self.assertEqual((done.returncode, done.stdout), (0, b"Verified OK\n"), done.stderr)

    # Promise: release: The same commit gives the same bytes, whoever makes it and where.
    def test_is_the_same_from_a_clone_in_another_place(self):
        git(self.scratch, "clone", "-q", self.repository, "clone")
        words = ["--url", "https://example.org/r/", "--repository", "example.org/a/tranche", "-o", f"{self.scratch}/again"]
        self.assertEqual(self.release(*words, repository=f"{self.scratch}/clone", umask=0o077, TZ="Asia/Tokyo").returncode, 0)
        names = set(os.listdir(f"{self.scratch}/again"))
        self.assertEqual(names, {name for name in os.listdir(self.dist) if not re.search(r"\.sig$|\.sig\.tar$|^cosign\.pub$", name)})
        self.assertEqual([name for name in names if read(f"{self.scratch}/again/{name}") != read(f"{self.dist}/{name}")], [])

    def test_checks_that_by_itself_and_names_the_files_that_differ(self):
        self.assertEqual(self.release("-o", f"{self.scratch}/checked", "--check").returncode, 0)
        other = f"{self.scratch}/other"
        git(self.scratch, "clone", "-q", self.repository, "other")
        with open(f"{other}/.git/info/attributes", "w") as file:  # which no clone of it has
            file.write("LICENSE text eol=crlf\n")
        os.unlink(f"{other}/LICENSE")
        git(other, "checkout", "-q", "LICENSE")
        self.refused(self.release("-o", f"{self.scratch}/checked", "--check", repository=other),
                     f"two releases of this commit differ in {BASE}-linux-amd64.tar.gz, {BASE}-linux-arm64.tar.gz, {BASE}.intoto.json\n")

    # Promise: release: Without a key, nothing is signed, and the output reports it.
    def test_is_not_signed_without_a_key_and_says_so(self):
        done = self.release("-o", f"{self.scratch}/unsigned")
        self.assertIn(b"Nothing is signed: name a private key with --key.\nThere is no manifest for krew", done.stdout)
        self.assertEqual([name for name in os.listdir(f"{self.scratch}/unsigned") if re.search("sig|pub|krew", name)], [])

    def test_replaces_an_earlier_release_and_nothing_else(self):
        folder = f"{self.scratch}/replaced"
        os.makedirs(folder)
        for name, status in (("SHA256SUMS", 0), ("mine", 1)):
            shutil.rmtree(folder)
            os.makedirs(folder)
            with open(f"{folder}/{name}", "w") as file:
                file.write("x")
            self.assertEqual(self.release("-o", folder).returncode, status)
        self.assertEqual(os.listdir(folder), ["mine"])

    # Promise: release: It is made only of committed sources of the version.
    def test_is_refused_for_sources_that_are_not_committed_or_of_another_version(self):
        self.refused(self.release(version="9.9.9"), f"CMakeLists.txt is {VERSION}, not 9.9.9; name that version, or write 9.9.9 there")
        git(self.scratch, "clone", "-q", self.repository, "changed")
        with open(f"{self.scratch}/changed/LICENSE", "a") as file:
            file.write("x")
        self.refused(self.release(repository=f"{self.scratch}/changed"), "not committed; commit or remove them:\nM LICENSE")
        self.assertFalse(os.path.exists(f"{self.scratch}/changed/dist"))

    def test_is_refused_for_images_of_another_commit(self):
        git(self.scratch, "clone", "-q", self.repository, "later")
        git(f"{self.scratch}/later", "commit", "-q", "--allow-empty", "-m", "later")
        head = git(f"{self.scratch}/later", "rev-parse", "HEAD")
        self.refused(self.release(repository=f"{self.scratch}/later"), f"the image for amd64 is of commit {git(self.repository, 'rev-parse', 'HEAD')}, not {head}; build it again")

    def test_is_refused_with_a_key_that_does_not_sign_before_anything_is_made(self):
        for kind in (["genpkey", "-algorithm", "ed25519"], ["ecparam", "-name", "prime256v1"], ["genrsa", "-aes256", "-passout", "pass:secret"]):
            run("openssl", *kind, "-out", f"{self.scratch}/bad.pem")
            self.refused(self.release("--key", f"{self.scratch}/bad.pem", "-o", f"{self.scratch}/bad"), "bad.pem is not a private EC or RSA key", "openssl ecparam")
        self.assertFalse(os.path.exists(f"{self.scratch}/bad"))

    # Promise: release: The manifests name the image by its digest, for amd64 and arm64.
    def test_names_in_its_manifests_the_image_of_both_architectures(self):
        archive = self.archive(f"{BASE}-image.tar")
        self.assertEqual([each["platform"] for each in archive.content["manifests"]], [{"architecture": each, "os": "linux"} for each in ("amd64", "arm64")])
        self.assertEqual(archive.top["annotations"], {"io.containerd.image.name": f"example.org/a/tranche:v{VERSION}", "org.opencontainers.image.ref.name": f"v{VERSION}"})
        for each in archive.content["manifests"]:
            manifest = archive.json(each)
            self.assertEqual(archive.json(manifest["config"])["architecture"], each["platform"]["architecture"])
            archive.blob(manifest["layers"][0])
        names = [name for name in os.listdir(f"{SOURCE}/deploy/static") if name.startswith("tranche")]
        self.assertTrue(names)
        for name in names:
            text = read(f"{self.dist}/{name}").decode()
            self.assertEqual(set(re.findall(r"\bimage: (.+)", text)), {f"example.org/a/tranche@{archive.top['digest']}"}, name)
            self.assertEqual(list(yaml.safe_load_all(text))[0]["kind"], "Namespace")

    # Promise: release: The chart is a package for Helm, and the same package as an artifact for a registry.
    def test_has_the_chart_as_a_package_and_as_an_artifact(self):
        package = read(f"{self.dist}/{BASE}.tgz")
        with tarfile.open(fileobj=io.BytesIO(package)) as tar:
            files = {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}
            self.assertEqual([entry.name for entry in tar if not entry.isfile() and not entry.isdir()], [])
        chart = f"{SOURCE}/deploy/helm/tranche"
        wanted = [os.path.relpath(f"{folder}/{name}", chart) for folder, _, names in os.walk(chart) for name in names if not name.endswith(".md")]
        self.assertEqual(files, {f"tranche/{name}": read(f"{chart}/{name}") for name in wanted})
        archive = self.archive(f"{BASE}-chart.tar")
        self.assertEqual(archive.json(archive.content["config"]), yaml.safe_load(files["tranche/Chart.yaml"]))
        self.assertEqual(archive.content["config"]["mediaType"], "application/vnd.cncf.helm.config.v1+json")
        [layer] = archive.content["layers"]
        self.assertEqual((layer["mediaType"], archive.blob(layer)), ("application/vnd.cncf.helm.chart.content.v1.tar+gzip", package))

    # Promise: release: The program runs with the libraries beside it, also as kubectl-tranche.
    def test_has_the_program_with_what_it_loads(self):
        root = f"{self.scratch}/program"
        with tarfile.open(f"{self.dist}/{BASE}-linux-amd64.tar.gz") as tar:
            tar.extractall(root)
        os.symlink(f"{root}/kubectl-tranche", f"{self.scratch}/kubectl-tranche")  # as krew does
        done = run(f"{self.scratch}/kubectl-tranche", "-c", 'echo "$0"; cat /proc/$$/maps')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.decode().splitlines()[0], f"{self.scratch}/kubectl-tranche")
        loaded = set(re.findall(r"/\S+\.so\S*", done.stdout.decode()))
        self.assertTrue(loaded and all(path.startswith(f"{os.path.realpath(root)}/lib/") for path in loaded), loaded)
        self.assertEqual(read(f"{root}/licenses/libc6"), b"of the C library")

    def test_tells_krew_where_the_program_is(self):
        manifest = yaml.safe_load(read(f"{self.dist}/tranche.krew.yaml"))
        self.assertEqual(manifest["spec"]["version"], f"v{VERSION}")
        self.assertEqual(len(manifest["spec"]["platforms"]), 2)
        for platform in manifest["spec"]["platforms"]:
            name = f"{BASE}-linux-{platform['selector']['matchLabels']['arch']}.tar.gz"
            self.assertEqual((platform["uri"], platform["sha256"]), (f"https://example.org/r/{name}", hashlib.sha256(read(f"{self.dist}/{name}")).hexdigest()))

    # Promise: release: Checksums and provenance name every file.
    def test_names_every_file_in_its_checksums_and_its_provenance(self):
        done = run("sha256sum", "--strict", "-c", "SHA256SUMS", cwd=self.dist)
        self.assertEqual(done.returncode, 0, done.stdout)
        summed = {line.split(": ")[0] for line in done.stdout.decode().splitlines()}
        self.assertEqual(summed | {"SHA256SUMS", "cosign.pub"}, {name for name in os.listdir(self.dist) if not re.search(r"\.sig(\.tar)?$", name)})
        statement = json.loads(read(f"{self.dist}/{BASE}.intoto.json"))
        self.assertEqual((statement["_type"], statement["predicateType"]), ("https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"))
        subjects = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
        wanted = {name: hashlib.sha256(read(f"{self.dist}/{name}")).hexdigest() for name in summed - {f"{BASE}.intoto.json"}}
        for name, file in ((f"example.org/a/tranche:v{VERSION}", "image"), (f"example.org/a/charts/tranche:{VERSION}", "chart")):
            wanted[name] = self.archive(f"{BASE}-{file}.tar").top["digest"].removeprefix("sha256:")
        self.assertEqual(subjects, wanted)
        definition = statement["predicate"]["buildDefinition"]
        self.assertEqual(definition["resolvedDependencies"], [{"name": "sources", "digest": {"gitCommit": git(self.repository, "rev-parse", "HEAD")}}, *(
            {"uri": f"pkg:deb/debian/libc6@1?arch={each}"} for each in ("amd64", "arm64"))])

    # Promise: release: With a key, every file, the image and the chart are signed in the formats of cosign.
    def test_is_signed_in_every_part(self):
        signed = [name for name in os.listdir(self.dist) if not re.search(r"\.sig(\.tar)?$|^cosign\.pub$", name)]
        for name in signed:
            self.verify(read(f"{self.dist}/{name}"), read(f"{self.dist}/{name}.sig"))
        for file, name in (("image", "example.org/a/tranche"), ("chart", "example.org/a/charts/tranche")):
            digest = self.archive(f"{BASE}-{file}.tar").top["digest"]
            tag = f"{digest.replace(':', '-')}.sig"
            archive = self.archive(f"{BASE}-{file}.{tag}.tar")
            self.assertEqual(archive.top["annotations"]["org.opencontainers.image.ref.name"], tag)
            [layer] = archive.content["layers"]
            self.assertEqual(layer["mediaType"], "application/vnd.dev.cosign.simplesigning.v1+json")
            critical = archive.json(layer)["critical"]
            self.assertEqual(critical, {"identity": {"docker-reference": name}, "image": {"docker-manifest-digest": digest}, "type": "cosign container image signature"})
            self.verify(archive.blob(layer), layer["annotations"]["dev.cosignproject.cosign/signature"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "--quiet"])

"""Images and other artifacts as a tar in OCI's layout, which containerd, podman, skopeo and kind import. Layers of images are
not compressed: then no version of a compressor is in the digest."""

import hashlib
import io
import json
import tarfile
import time

from tree import Tree

CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def encoded(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def stamp(created):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created))


def place(descriptor):
    """Where an archive has what a descriptor names."""
    return f"blobs/{descriptor['digest'].replace(':', '/')}"


def unpacked(archive):
    """Path -> content of the files of a tar."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}


class Layout:
    """What one archive has: blobs by their digests."""

    def __init__(self):
        self.files = {}

    def add(self, kind, data):
        """The descriptor of a blob."""
        descriptor = {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}
        self.files[place(descriptor)] = data
        return descriptor

    def manifest(self, config, layers, annotations):
        return self.add(MANIFEST, encoded({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers, "annotations": annotations}))

    def image(self, layer, settings, architecture, created, labels):
        """The descriptor of the manifest of an image of one layer."""
        body = self.add(LAYER, layer)
        config = self.add(CONFIG, encoded({
            "architecture": architecture, "os": "linux", "created": stamp(created), "config": {**settings, "Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [body["digest"]]},
            "history": [{"created": stamp(created), "created_by": "deploy/image/build", "comment": "tranche, what it loads, and nothing else"}]}))
        annotations = {key: value for key, value in labels.items() if key.startswith("org.opencontainers.image.")}
        return {**self.manifest(config, [body], annotations), "platform": {"architecture": architecture, "os": "linux"}}

    def take(self, archive):
        """Puts the blobs of an archive into this one. Returns the descriptors that its index names, without their names."""
        files = unpacked(archive)
        self.files.update({path: data for path, data in files.items() if path.startswith("blobs/")})
        return [{key: value for key, value in each.items() if key != "annotations"} for each in json.loads(files["index.json"])["manifests"]]

    def index(self, images):
        """The descriptor of one image for several architectures."""
        return self.add(INDEX, encoded({"schemaVersion": 2, "mediaType": INDEX, "manifests": images}))

    def docker(self, image, name):
        """Puts Docker's manifest.json beside the rest, so that `docker load` of any age loads an image."""
        manifest = json.loads(self.files[place(image)])
        self.files["manifest.json"] = encoded([{"Config": place(manifest["config"]), "RepoTags": [name], "Layers": [place(each) for each in manifest["layers"]]}])

    def archive(self, top, name, created):
        """The archive's bytes: all blobs, of which `top` has the name."""
        index = encoded({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
            {**top, "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}}]})
        tree = Tree()
        for path, data in {**self.files, "oci-layout": encoded({"imageLayoutVersion": "1.0.0"}), "index.json": index}.items():
            tree.file(path, data)
        return tree.layer(created)

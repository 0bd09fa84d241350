"""One image as a tar in OCI's layout, which containerd, podman, skopeo and kind import; with Docker's manifest.json beside
it, so that `docker load` of any age does. The layer is not compressed: then no version of a compressor is in the digest."""

import hashlib
import io
import json
import tarfile
import time

CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def encoded(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class Blobs:
    def __init__(self):
        self.content = {}

    def add(self, kind, data):
        digest = hashlib.sha256(data).hexdigest()
        self.content[digest] = data
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def stamp(created):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created))


def archive(layer, settings, architecture, name, created, labels):
    """(bytes of the archive, digest of the manifest)."""
    blobs = Blobs()
    body = blobs.add(LAYER, layer)
    config = blobs.add(CONFIG, encoded({
        "architecture": architecture, "os": "linux", "created": stamp(created), "config": {**settings, "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [body["digest"]]},
        "history": [{"created": stamp(created), "created_by": "deploy/image/build", "comment": "tranche, what it loads, and nothing else"}]}))
    annotations = {key: value for key, value in labels.items() if key.startswith("org.opencontainers.image.")}
    manifest = blobs.add(MANIFEST, encoded({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [body], "annotations": annotations}))
    index = encoded({"schemaVersion": 2, "mediaType": INDEX, "manifests": [{
        **manifest, "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}}]})
    docker = encoded([{"Config": f"blobs/{config['digest'].replace(':', '/')}", "RepoTags": [name], "Layers": [f"blobs/{body['digest'].replace(':', '/')}"]}])
    files = {"oci-layout": encoded({"imageLayoutVersion": "1.0.0"}), "index.json": index, "manifest.json": docker,
             **{f"blobs/sha256/{digest}": data for digest, data in blobs.content.items()}}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for folder in ("blobs", "blobs/sha256"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, created
            tar.addfile(entry)
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.mtime = len(data), 0o644, created
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue(), manifest["digest"]

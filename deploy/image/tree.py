"""The files of an image, or of another archive, by path, in whichever order they were put in: written as one tar that depends
on nothing but their contents, or into a folder."""

import io
import os
import tarfile


class Tree:
    def __init__(self):
        self.entries = {}  # path without its first slash: (kind, mode, content or target)

    def _put(self, path, entry):
        path = path.strip("/")
        parent = os.path.dirname(path)
        if parent and parent not in self.entries:
            self.folder(parent)
        if parent and self.entries[parent][0] != "folder":
            raise ValueError(f"/{path}: /{parent} is no folder; put it where that link leads")
        there = self.entries.get(path)
        if there is not None and there != entry:
            raise ValueError(f"/{path} is put into the image twice, with different contents")
        self.entries[path] = entry

    def folder(self, path, mode=0o755):
        self._put(path, ("folder", mode, None))

    def file(self, path, content, mode=0o644):
        self._put(path, ("file", mode, content))

    def link(self, path, target):
        self._put(path, ("link", 0o777, target))

    def files(self):
        """(path, content) of every file, sorted."""
        return [(f"/{path}", content) for path, (kind, _, content) in sorted(self.entries.items()) if kind == "file"]

    def size(self):
        return sum(len(content) for _, content in self.files())

    def layer(self, time):
        """A tar whose bytes follow from the contents and `time` alone."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, (kind, mode, content) in sorted(self.entries.items()):
                entry = tarfile.TarInfo(path)
                entry.mode, entry.mtime = mode, time
                if kind == "folder":
                    entry.type = tarfile.DIRTYPE
                elif kind == "link":
                    entry.type, entry.linkname = tarfile.SYMTYPE, content
                else:
                    entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content) if kind == "file" else None)
        return out.getvalue()

    def write(self, root, time):
        """The same files below a folder, which must be empty or not be there."""
        if os.path.isdir(root) and os.listdir(root):
            raise ValueError(f"{root} is not empty; name another folder")
        os.makedirs(root, exist_ok=True)
        for path, (kind, mode, content) in sorted(self.entries.items()):
            target = os.path.join(root, path)
            if kind == "folder":
                os.makedirs(target)
            elif kind == "link":
                os.symlink(content, target)
            else:
                with open(target, "wb") as file:
                    file.write(content)
            if kind != "link":
                os.chmod(target, mode)
        for path in sorted(self.entries, reverse=True):
            os.utime(os.path.join(root, path), (time, time), follow_symlinks=False)

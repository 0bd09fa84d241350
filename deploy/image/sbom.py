"""What is in the image as an SPDX 2.3 document: every file with its checksums, the Debian package that it is of, and the
packages whose code is linked into our programs."""

import hashlib
import json
import os
import re
import time

import debian

# Compiled into our programs without leaving a library to be seen in the link: headers, and the C++ runtime.
HEADERS = ["libcli11-dev", "libfmt-dev", "nlohmann-json3-dev"]


def linked_packages(build, system):
    """Debian packages, described, of the static libraries that the programs of this build folder were linked with."""
    ninja = os.path.join(build, "build.ninja")
    compiler = [f"{system.triplet}-g++", *([f"--sysroot={system.root}"] if system.root else [])]
    archives = {debian.output(*compiler, f"-print-file-name={name}", check=False).strip() for name in ("libstdc++.a", "libgcc.a", "libc.a")}
    if os.path.exists(ninja):
        with open(ninja) as file:
            text = file.read()
        for edge in re.findall(r"^build bin/tranche: .*?\n\n", text, re.MULTILINE | re.DOTALL):
            archives.update(re.findall(r"/\S*/usr/\S+\.a\b|/usr/\S+\.a\b", edge))
    known = {os.path.realpath(path) for path in archives if os.path.exists(path)}
    ours = {path.removeprefix(system.root) for path in known if path.startswith(system.root)}
    crossed = {path for path in known if not path.startswith(system.root)}  # the cross compiler's, a package of this machine
    machine = debian.System("", os.uname().machine)
    return {**system.describe({*system.owners(ours).values(), *(name for name in HEADERS if system.installed(name))}),
            **machine.describe(machine.owners(crossed).values())}


def identifier(*words):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", "-".join(words))


def package_entry(known, kind):
    name, version, arch = known["Package"], known["Version"], known["Architecture"]
    entry = {
        "SPDXID": identifier(kind, name), "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "supplier": f"Organization: Debian ({known['Maintainer']})", "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION", "sourceInfo": f"built from {known['source:Package']} {known['source:Version']}; licences: /usr/share/doc/{name}/copyright",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": f"pkg:deb/debian/{name.replace('+', '%2B')}@{version.replace('+', '%2B').replace(':', '%3A').replace('~', '%7E')}?arch={arch}"}]}
    if known["Homepage"]:
        entry["homepage"] = known["Homepage"]
    return entry


def document(contents, linked, version, created, name):
    files, relations, ours = [], [], []
    packages = {package: package_entry(known, "Package") for package, known in contents.described.items()}
    for path, content in contents.tree.files():
        sha1 = hashlib.sha1(content).hexdigest()
        reference = identifier("File", hashlib.sha256(path.encode()).hexdigest()[:16])
        files.append({"SPDXID": reference, "fileName": f".{path}", "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION", "licenseInfoInFiles": ["NOASSERTION"],
                      "checksums": [{"algorithm": "SHA1", "checksumValue": sha1}, {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()}]})
        package = contents.packages.get(path)
        owner = packages[package]["SPDXID"] if package else "SPDXRef-Package-tranche"
        if not package:
            ours.append(sha1)
        relations.append((owner, "CONTAINS", reference))
    for package, known in sorted(linked.items()):
        packages.setdefault(f"{package} (linked)", package_entry(known, "Linked"))
        relations.append(("SPDXRef-Package-tranche", "STATIC_LINK", identifier("Linked", package)))
    tranche = {"SPDXID": "SPDXRef-Package-tranche", "name": "tranche", "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": True,
               "packageVerificationCode": {"packageVerificationCodeValue": hashlib.sha1("".join(sorted(ours)).encode()).hexdigest()},
               "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "licenseInfoFromFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION"}
    relations.append(("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Package-tranche"))
    relations += [("SPDXRef-Package-tranche", "DEPENDS_ON", packages[package]["SPDXID"]) for package in contents.described]
    body = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
            "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created)), "creators": ["Tool: deploy/image/build"]},
            "packages": [tranche, *(packages[key] for key in sorted(packages))], "files": files,
            "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in sorted(set(relations))]}
    body["documentNamespace"] = "https://tranche.io/spdx/" + hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return json.dumps(body, indent=1, sort_keys=True).encode() + b"\n"

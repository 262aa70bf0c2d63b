#!/usr/bin/env python3
"""sbom.py VERSION FOLDER - writes FOLDER/vcompress-VERSION.spdx.json (SPDX 2.3): the files of a release, and the
libraries inside the program of the tar and of the wheel, with the versions of Debian's packages that they come from. Standard
library only; the same document from the same files."""
import datetime
import gzip
import hashlib
import json
import os
import subprocess
import sys

version, folder = sys.argv[1:]
epoch = int(os.environ["SOURCE_DATE_EPOCH"])
name = f"vcompress-{version}.spdx.json"

# package of Debian with the archive: licence
LINKED = {"zlib1g-dev": "Zlib", "libjansson-dev": "MIT", "libdeflate-dev": "MIT", "nettle-dev": "LGPL-3.0-or-later OR GPL-2.0-or-later"}


def digest(path, kind):
    with open(path, "rb") as f:
        return hashlib.new(kind, f.read()).hexdigest()


def package(spdx_id, name, version, licence, **more):
    return {"SPDXID": spdx_id, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION", **more}


def source_of(debian, machine):
    """Name and version of the source that an archive comes from: of this machine, or of build/arm64-sysroot."""
    if machine == "amd64":
        found = subprocess.run(["dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", debian], capture_output=True, text=True, check=True)
        return found.stdout.split()
    with gzip.open(f"build/arm64-sysroot/usr/share/doc/{debian}/changelog.Debian.gz", "rt", encoding="utf-8") as f:
        return f.readline().replace("(", "").replace(")", "").split()[:2]


files = [f for f in sorted(os.listdir(folder)) if f.endswith((".deb", ".tar.gz", ".whl"))]
packages = [package("SPDXRef-vcompress", "vcompress", version, "MIT", supplier="Organization: The vcompress authors")]
relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-vcompress")]
for machine, inside in (("amd64", "x86_64"), ("arm64", "aarch64")):
    linked = [f for f in files if inside in f and not f.endswith(".deb")]
    for debian, licence in LINKED.items() if linked else ():
        source, source_version = source_of(debian, machine)
        spdx_id = f"SPDXRef-{machine}-{source}"
        purl = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": f"pkg:deb/debian/{source}@{source_version}?arch=source"}
        packages.append(package(spdx_id, source, source_version, licence, externalRefs=[purl]))
        relations += [("SPDXRef-" + f, "STATIC_LINK", spdx_id) for f in linked]
document = {
    "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"vcompress-{version}",
    "creationInfo": {"created": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                     "creators": ["Tool: scripts/release.sh"]},
    "packages": packages,
    "files": [{"SPDXID": "SPDXRef-" + f.replace("_", "-"), "fileName": "./" + f, "licenseConcluded": "MIT", "copyrightText": "NOASSERTION",
               "checksums": [{"algorithm": kind.upper(), "checksumValue": digest(os.path.join(folder, f), kind)} for kind in ("sha1", "sha256")]}
              for f in files]}
relations += [("SPDXRef-vcompress", "GENERATES", "SPDXRef-" + f) for f in files]
document["relationships"] = [{"spdxElementId": a.replace("_", "-"), "relationshipType": kind, "relatedSpdxElement": b.replace("_", "-")}
                             for a, kind, b in relations]
# Every release has a name of its own.
document["documentNamespace"] = "https://spdx.org/spdxdocs/vcompress-" + hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
    json.dump(document, f, indent=1, sort_keys=True)
    f.write("\n")

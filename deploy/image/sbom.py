#!/usr/bin/env python3
"""The software bill of materials of the binary, as CycloneDX: sbom.py Cargo.lock. Every crate of the lock file, with its
checksum; what is built for tests alone is among them. The same lock file gives the same bytes."""

import json
import pathlib
import sys
import tomllib
import uuid


def component(package):
    """A crate. One of ours has no source, and no checksum."""
    name, version = package["name"], package["version"]
    found = {"type": "library", "bom-ref": f"{name}@{version}", "name": name, "version": version}
    if "source" in package:
        found["purl"] = f"pkg:cargo/{name}@{version}"
    if "checksum" in package:
        found["hashes"] = [{"alg": "SHA-256", "content": package["checksum"]}]
    return found


def bill(text):
    packages = tomllib.loads(text)["package"]
    refs = {}
    for package in packages:
        refs.setdefault(package["name"], []).append(package["version"])

    def ref(dependency):
        """`name`, or `name version` where there are several, or with a source behind."""
        name, version = (dependency.split(" ") + [""])[:2]
        return f"{name}@{version or refs[name][0]}"

    root = next(component(one) for one in packages if one["name"] == "dovetail")
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, text)}",
        "metadata": {"component": {**root, "type": "application"}},
        "components": [component(one) for one in packages if one["name"] != "dovetail"],
        "dependencies": [
            {"ref": f"{one['name']}@{one['version']}", "dependsOn": sorted(map(ref, one.get("dependencies", [])))} for one in packages
        ],
    }


if __name__ == "__main__":
    print(json.dumps(bill(pathlib.Path(sys.argv[1]).read_text()), indent=1))

#!/usr/bin/env python3
"""Makes crates/sandbox/src/apiserver/protobuf/fields.txt: the numbers and types of the fields of Kubernetes' messages.

    python3 tools/protobuf_fields.py

Reads the `.proto` files of the versions that tests/real/kubernetes/go.mod pins. A message is a line with its name, its
fields follow with a space before them: number, name, type; `*` stands before the type of a list, `%` before that of a
map's values.
"""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "crates/sandbox/src/apiserver/protobuf/fields.txt"
GROUPS = """core/v1 apps/v1 authentication/v1 authorization/v1 batch/v1 coordination/v1 discovery/v1 events/v1 networking/v1
policy/v1 rbac/v1 scheduling/v1 storage/v1 autoscaling/v1""".split()


def folder(module):
    found = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", module], cwd=ROOT / "tests/real/kubernetes", check=True, capture_output=True, text=True
    )
    return pathlib.Path(found.stdout.strip())


def messages(path, package):
    text = re.sub(r"//.*", "", path.read_text())
    for name, body in re.findall(r"^message (\w+) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        fields = re.findall(r"^\s+(optional|repeated)?\s*(map<\w+, *([\w.]+)>|[\w.]+)\s+(\w+) = (\d+);", body, re.MULTILINE)
        yield f"{package}.{name}", [(int(number), field, mark(rule, kind, of, package)) for rule, kind, of, field, number in fields]


def mark(rule, kind, of, package):
    if of:
        return "%" + short(of, package)
    return ("*" if rule == "repeated" else "") + short(kind, package)


def short(kind, package):
    """A scalar as it is, a message with the last two parts of its package."""
    if kind in ("bool", "bytes", "double", "int32", "int64", "string", "uint32", "uint64"):
        return kind
    if "." not in kind:
        return f"{package}.{kind}"
    package, name = kind.lstrip(".").rsplit(".", 1)
    return ".".join(package.split(".")[-2:]) + "." + name


def main():
    api, machinery = folder("k8s.io/api"), folder("k8s.io/apimachinery")
    files = [(api / group / "generated.proto", group.replace("/", ".")) for group in GROUPS]
    files += [
        (machinery / "pkg/apis/meta/v1/generated.proto", "meta.v1"),
        (machinery / "pkg/api/resource/generated.proto", "api.resource"),
        (machinery / "pkg/util/intstr/generated.proto", "util.intstr"),
        (machinery / "pkg/runtime/generated.proto", "pkg.runtime"),
    ]
    lines = []
    for path, package in files:
        for name, fields in messages(path, package):
            lines.append(name)
            lines += [f" {number} {field} {kind}" for number, field, kind in fields]
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

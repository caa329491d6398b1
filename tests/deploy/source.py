"""Which operations of AWS the code calls, read from its source in two ways, and which events it hears."""

import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CLOUD = ROOT / "crates/cloud/src"
#: Crates of the SDK that call nothing of AWS by themselves, or only what needs no policy (STS, by the role's trust).
SUPPORT = {"aws-config", "aws-credential-types", "aws-smithy-async", "aws-smithy-http-client", "aws-smithy-runtime-api", "aws-smithy-types"}
#: The SDK's runtime, by which crates/cloud calls services without a crate of theirs (crates/cloud/src/ec2/services).
RUNTIME = {"aws-runtime", "aws-smithy-http", "aws-smithy-runtime", "aws-smithy-xml", "aws-types"}
#: The name by which such a service's requests are signed.
OWN_SERVICE = re.compile(r'\bsigning_name: "([\w-]+)"')
#: Clients whose services' names are none in Rust.
SIGNED = {"region_lists": "ec2", "service_quotas": "servicequotas", "zonal_shift": "arc-zonal-shift"}
#: `dovetail doctor` calls these with the credentials of who runs it, in a file of their own: the control plane's role needs none of them.
OF_DOCTOR = CLOUD / "ec2/account_facts.rs"
#: Beside the clients is what paces their calls, which is no service.
CLIENT = re.compile(r"\bclients\s*\.\s*(?!limiter\b)(\w+)")
CALL = re.compile(r"\bclients\s*\.\s*(?!limiter\b)(\w+)\s*\.\s*(\w+)\s*\(")
SENT = re.compile(r"\.send_with\(\s*&self\s*\.\s*clients\s*\.\s*(\w+)\s*\)")
BUILT = re.compile(r"\b(\w+)InputBuilder::default\(\)")
NAMED = re.compile(r'(?:classify\(\s*|let call = |const (?:CALL|ADD_ROLE): &str = )"(\w+)"')


def pascal(name):
    return "".join(word.capitalize() for word in name.split("_"))


def texts():
    """The source of crates/cloud, but for what doctor alone asks."""
    return {path: path.read_text() for path in sorted(CLOUD.rglob("*.rs")) if path != OF_DOCTOR}


def doctors():
    """What doctor asks: the methods of its file, the operations there, and files outside src/doctor that call those methods."""
    text = OF_DOCTOR.read_text()
    methods = set(re.findall(r"\bpub async fn (\w+)", text))
    calls = re.compile(rf"\.({'|'.join(sorted(methods))})\(")
    folders = (ROOT / "src", ROOT / "actors/src", ROOT / "crates")
    files = [path for folder in folders for path in folder.rglob("*.rs") if path != OF_DOCTOR and ROOT / "src/doctor" not in path.parents]
    operations = {f"{SIGNED.get(service, service)}.{pascal(operation)}" for service, operation in CALL.findall(text)}
    return methods, operations, [path for path in files if calls.search(path.read_text())]


def called():
    """`ec2.CreateFleet` and the like, by the calls of the SDK's clients; fails on one that is not understood."""
    found = set()
    builders = {one for text in texts().values() for one in BUILT.findall(text)}
    for path, text in texts().items():
        calls, sent = CALL.findall(text), SENT.findall(text)
        if len(CLIENT.findall(text)) != len(calls) + len(sent):
            raise AssertionError(f"{path}: a client is used in a way that source.py does not read")
        found |= {f"{SIGNED.get(service, service.removesuffix('_once'))}.{pascal(operation)}" for service, operation in calls}
        # A call that was put together beforehand.
        found |= {f"{service.removesuffix('_once')}.{operation}" for service in sent for operation in builders}
    return found


def named():
    """The operations' names, by what errors are told with."""
    return {one for text in texts().values() for one in NAMED.findall(text)}


def sdk_users():
    """Crates of the workspace that depend on the SDK for a service, each with these."""
    found = {}
    for path in [ROOT / "Cargo.toml", *sorted(ROOT.glob("*/Cargo.toml")), *sorted(ROOT.glob("crates/*/Cargo.toml"))]:
        parsed = tomllib.loads(path.read_text())
        own = {name for kind in ("dependencies", "build-dependencies") for name in parsed.get(kind, {})}
        services = {name for name in own if name.startswith("aws-")} - SUPPORT
        if services:
            found[path.parent.relative_to(ROOT).as_posix()] = services
    return found


def own_services():
    """The services that are called without a crate of the SDK."""
    files = [path for path in sorted((CLOUD / "ec2/services").glob("*.rs")) if path.name != "tests.rs"]
    return {name for path in files for name in OWN_SERVICE.findall(path.read_text())}


def events():
    """(source, detail-type) of the messages that the interruption's reader tells apart."""
    text = "".join(path.read_text() for path in sorted((ROOT / "crates/core/src/interruption").rglob("*.rs")))
    return set(re.findall(r'\(\s*"0",\s*"([\w.]+)",\s*"([^"]+)"\s*\)\s*=>', text))

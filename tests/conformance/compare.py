"""Cases: what is asked of both sides, what each said, and in what that differs."""

import concurrent.futures
import fnmatch
import json
import re
import time
import traceback

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
#: Versions in a sentence.
VERSION = re.compile(r"(?<=in record \()\d+(?=\))|(?<=current: )\d+")
#: What is another with each run, by its member's name.
OWN = {"resourceVersion", "continue", "uid"}
WORKERS = 6
#: Seconds that a controller may take.
PATIENCE = 40


class Differs(AssertionError):
    """One side does not do what a case says that both do."""


def plain(value, name=""):
    """A value with everything that is another with each run named instead."""
    if isinstance(value, dict):
        whole = {UID.sub("<uid>", key): plain(one, key) for key, one in value.items()}
        for entry in whole.get("managedFields") or []:
            entry.pop("time", None)
        if "managedFields" in whole:
            # In the order of their times, which are those of the run.
            whole["managedFields"].sort(key=lambda one: [str(one.get(key)) for key in ("operation", "manager", "subresource", "apiVersion")])
        return whole
    if isinstance(value, list):
        return [plain(one, name) for one in value]
    if not isinstance(value, str):
        return value
    if name in OWN:
        return f"<{name}>" if value else value
    short = TIME.sub(lambda found: f"<time{'.' + '0' * (len(found[1]) - 1) if found[1] else ''}>", value)
    return VERSION.sub("<resourceVersion>", UID.sub("<uid>", short))


def flat(value, path=""):
    """Leaves by path."""
    if isinstance(value, dict) and value:
        return {at: leaf for key, one in value.items() for at, leaf in flat(one, f"{path}.{key}").items()}
    if isinstance(value, list) and value:
        return {at: leaf for number, one in enumerate(value) for at, leaf in flat(one, f"{path}.{number}").items()}
    return {path.lstrip("."): value}


class At:
    """A case on one side."""

    def __init__(self, side, case):
        self.side, self.case, self.seen = side, case, {}
        self.ns = "c-" + case.__name__.replace("_", "-")[:50].strip("-")

    def tell(self, label, what):
        """Something that both have to say alike."""
        if label in self.seen:
            raise ValueError(f"{self.case.__name__}: {label!r} stands twice")
        self.seen[label] = flat(plain(what))

    def space(self):
        """The case's own namespace, made, with the account that its pods need."""
        self.quiet("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.ns}})
        if self.side.accounts:
            self.until("account", lambda: self.side.ask("GET", f"/api/v1/namespaces/{self.ns}/serviceaccounts/default").status == 200)
        return f"/api/v1/namespaces/{self.ns}"

    def until(self, what, holds):
        """Waits for what a controller does."""
        begun = time.monotonic()
        while not (found := holds()):
            self.must(time.monotonic() - begun < PATIENCE, f"never came to pass: {what}")
            time.sleep(0.05)
        return found

    def must(self, holds, what):
        """Something that has to hold on both, whatever the other says."""
        if not holds:
            raise Differs(f"{self.case.__name__} on {self.side.name}: {what}")

    def do(self, label, method, path, body=None, kind=None, expect=None, only=None, only_reason=False, **more):
        """Asks, and tells what was answered; the answer's JSON. Of an object `only` these members are told, of a refusal
        whose words and causes are a library's, `only_reason`."""
        answer = self.side.ask(method, path, body, kind, **more)
        if expect is not None:
            self.must(answer.status == expect, f"{label}: {answer.status}, not {expect}: {answer.text[:600]}")
        said = answer.json if answer.json is not None else answer.text
        if only is not None and answer.status < 300:
            said = {name: at(said, name) for name in only}
        if only_reason and answer.status >= 400 and isinstance(said, dict):
            said = {name: at(said, name) for name in ("kind", "status", "reason", "code")}
        if answer.status == 422 and isinstance(said, dict) and "details" in said:
            said = refusal(said)
        headers = {name: answer.headers[name] for name in ("content-type", "warning", "retry-after") if name in answer.headers}
        self.tell(label, {"status": answer.status, "headers": headers, "said": said})
        return answer.json

    def quiet(self, method, path, body=None, kind=None):
        """Asks for something that the case needs; that has to go well."""
        answer = self.side.ask(method, path, body, kind)
        self.must(answer.status < 300, f"{method} {path}: {answer.status} {answer.text[:600]}")
        return answer.json


def refusal(said):
    """What is refused and why, without the words; `<nil>` only says that not every rule was looked at."""
    details = said["details"]
    causes = {f"{one.get('reason')} {one['field']}" for one in details.get("causes") or [] if one.get("field") not in (None, "<nil>")}
    named = {name: details.get(name) for name in ("name", "group", "kind")}
    return {"reason": said["reason"], "code": said["code"], "status": said["status"], "details": named, "causes": sorted(causes)}


def at(value, path):
    """What stands at a path with dots; nothing where there is nothing."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def play(case, side):
    """A case on one side: what was seen, and what went wrong."""
    here = At(side, case)
    try:
        case(here)
        return here.seen, None
    except Differs as wrong:
        return here.seen, str(wrong)
    except Exception:  # a case that cannot go on says why, and the others go on
        return here.seen, traceback.format_exc()


def compare(cases, real, sandbox):
    """All cases on both: what differs, each as `case: label: path: real: sandbox`, and what went wrong."""
    differing, wrong = [], []
    with concurrent.futures.ThreadPoolExecutor(2 * WORKERS) as pool:
        runs = [(case, pool.submit(play, case, real), pool.submit(play, case, sandbox)) for case in cases]
        for case, *sides in runs:
            (one, failed), (other, failed_too) = (run.result() for run in sides)
            wrong += [f"real: {failed}"] * bool(failed) + [f"sandbox: {failed_too}"] * bool(failed_too)
            for label in dict.fromkeys([*one, *other]):
                first, second = one.get(label), other.get(label)
                if first is None or second is None:
                    wrong.append(f"{case.__name__}: {label}: {'sandbox' if second is None else 'real'} did not come to it")
                    continue
                # Where the one takes what the other refuses, that is the difference.
                apart = first.get("status") != second.get("status")
                for path in ["status"] if apart else sorted({*first, *second}):
                    a, b = (json.dumps(seen[path]) if path in seen else "nothing" for seen in (first, second))
                    if a != b:
                        differing.append({"where": f"{case.__name__}: {label}: {path}", "real": a, "sandbox": b})
    return differing, wrong


def judge(differing, listed):
    """What is not listed, and what is listed and no longer there."""
    met, unlisted = set(), []
    for one in differing:
        known = [entry["id"] for entry in listed if any(fnmatch.fnmatchcase(one["where"], glob) for glob in entry["where"])]
        met.update(known)
        if not known:
            unlisted.append(one)
    return unlisted, [entry["id"] for entry in listed if entry["id"] not in met]

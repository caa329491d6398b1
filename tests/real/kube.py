"""A small client of an API server, on nothing but Python's own library: what the stand-ins here need."""

import http.client
import json
import ssl
import threading
import urllib.parse


class Refused(Exception):
    """The API server said no."""

    def __init__(self, status, body):
        super().__init__(f"{status}: {body[:300]}")
        self.status = status


class Kube:
    """One connection a thread, with a client certificate."""

    def __init__(self, server, pki, client):
        self.address = urllib.parse.urlsplit(server).netloc
        self.tls = ssl.create_default_context(cafile=f"{pki}/ca.crt")
        self.tls.load_cert_chain(f"{pki}/{client}.crt", f"{pki}/{client}.key")
        self.own = threading.local()

    def call(self, method, path, body=None, kind="application/json"):
        """What is answered, as JSON; a connection that broke is made anew once."""
        text = None if body is None else json.dumps(body)
        for attempt in (1, 2):
            connection = getattr(self.own, "connection", None)
            if connection is None:
                connection = http.client.HTTPSConnection(self.address, context=self.tls, timeout=30)
                self.own.connection = connection
            try:
                connection.request(method, path, text, {"content-type": kind, "accept": "application/json"})
                answer = connection.getresponse()
                said = answer.read().decode()
                break
            except (OSError, http.client.HTTPException):
                connection.close()
                self.own.connection = None
                if attempt == 2:
                    raise
        if answer.status >= 300:
            raise Refused(answer.status, said)
        return json.loads(said) if said.startswith("{") else said

    def list(self, path):
        """All objects there."""
        return self.call("GET", path)["items"]

    def create(self, path, body):
        """Creates; what is there already stays as it is."""
        try:
            return self.call("POST", path, body)
        except Refused as refused:
            if refused.status != 409:
                raise
            return None

    def patch(self, path, body):
        """A merge patch; `None` where there is no such object any more."""
        try:
            return self.call("PATCH", path, body, "application/merge-patch+json")
        except Refused as refused:
            if refused.status != 404:
                raise
            return None

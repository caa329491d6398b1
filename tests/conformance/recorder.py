"""A proxy on loopback that passes every request on as it is, answers as they come, and keeps both."""

import http.client
import http.server
import socketserver
import threading
import urllib.parse

#: Not passed on: they are about one connection, and an answer that is kept has to be readable.
OWN = {"host", "connection", "transfer-encoding", "content-length", "accept-encoding", "keep-alive"}
#: Of an answer that never ends, so much is kept.
MOST = 4 << 20


class Recorder:
    """Passes on to `upstream`, a URL; what was said is in `exchanges`, in the order in which it was asked."""

    def __init__(self, upstream, tls=None):
        self.upstream, self.tls, self.exchanges, self.lock = urllib.parse.urlsplit(upstream), tls, [], threading.Lock()
        recorder = self

        class Handler(Passing):
            """Of this recorder."""

            def setup(self):
                super().setup()
                self.recorder = recorder

        self.server = Threads(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def connect(self):
        """A connection to what is recorded."""
        if self.upstream.scheme == "https":
            return http.client.HTTPSConnection(self.upstream.netloc, context=self.tls, timeout=600)
        return http.client.HTTPConnection(self.upstream.netloc, timeout=600)

    def keep(self, exchange):
        """A request, as it comes."""
        with self.lock:
            self.exchanges.append(exchange)

    def end(self):
        """Takes no more connections."""
        self.server.shutdown()
        self.server.server_close()


class Threads(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """A thread a connection; they end with the process."""

    daemon_threads, request_queue_size = True, 256

    def handle_error(self, request, client_address):
        """Either side may hang up at any time."""


class Passing(http.server.BaseHTTPRequestHandler):
    """One connection; it has one of its own to the other side."""

    protocol_version = "HTTP/1.1"
    connection_up = None

    def log_message(self, *_):
        """The exchanges are the log."""

    def finish(self):
        super().finish()
        if self.connection_up:
            self.connection_up.close()

    def pass_on(self):
        """One request and its answer."""
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in OWN}
        exchange = {
            "method": self.command, "target": self.path, "body": body, "status": 0, "said": b"",
            "headers": {name.lower(): value for name, value in headers.items() if name.lower() != "authorization"},
            "service": self.headers.get("authorization", "").partition("Credential=")[2].split(",")[0].split("/")[3:4],
        }
        self.recorder.keep(exchange)
        answer = self.ask(headers, body)
        exchange["status"] = answer.status
        exchange["answered"] = {name.lower(): value for name, value in answer.getheaders()}
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in OWN:
                self.send_header(name, value)
        chunked = answer.chunked
        if chunked:
            self.send_header("transfer-encoding", "chunked")
        elif answer.length is not None:
            self.send_header("content-length", str(answer.length))
        self.end_headers()
        while piece := answer.read1(1 << 16):
            if len(exchange["said"]) < MOST:
                exchange["said"] += piece
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            self.wfile.flush()
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def ask(self, headers, body):
        """The other side's answer; a connection that it has closed meanwhile is made anew once."""
        for attempt in (1, 2):
            if self.connection_up is None:
                self.connection_up = self.recorder.connect()
            try:
                self.connection_up.request(self.command, self.path, body or None, headers)
                return self.connection_up.getresponse()
            except (OSError, http.client.HTTPException):
                self.connection_up.close()
                self.connection_up = None
                if attempt == 2:
                    raise

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on

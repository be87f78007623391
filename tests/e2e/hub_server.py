"""A hub on this machine alone: the part of Hugging Face's server that a pull talks to, and every way
in which such a server may fail.

    with Hub(files) as hub: hub.url is HF_ENDPOINT; hub.other_url the same machine under another port,
    where large files are when hub.elsewhere is set.

A test changes hub.fail: a function (request, file) -> None to go on, or anything else when it has
answered itself. file is None for the list.
"""
import hashlib
import http.server
import json
import os
import re
import threading
import time
import zlib

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ID = "org/whisper-nano"
LARGE = re.compile(r"\.(safetensors|bin)$")


SILERO_PACKAGE, SILERO_BYTES = "silero_vad-6.2.3-py3-none-any.whl", 11317527


def silero_package(folder):
    """As much of Silero's package as a pull asks for: the two files of this folder, deflated, in their places."""
    package = bytearray(SILERO_BYTES)
    for name, at in (("silero_vad_16k.safetensors", 3944829), ("LICENSE", 11314499)):
        deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        with open(os.path.join(folder, name), "rb") as file:
            piece = deflate.compress(file.read()) + deflate.flush()
        package[at:at + len(piece)] = piece
    return bytes(package)


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def etag(name, data):
    return hashlib.sha256(data).hexdigest() if LARGE.search(name) else git_hash(data)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    # -- what a test may use

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.send(body)

    def send(self, body):
        """Counts what was sent."""
        for at in range(0, len(body), 65536):
            piece = body[at:at + 65536]
            self.hub.sent += len(piece)  # first: whoever has it may ask at once
            try:
                self.wfile.write(piece)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
                return

    def cut(self, body, n):
        """Promises all of the body, sends n bytes of it and hangs up."""
        first = self.range_of(len(body))
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - first))
        self.end_headers()
        self.send(body[first:first + n])
        self.close_connection = True

    def range_of(self, size):
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if self.hub.no_ranges:
            return 0
        return int(match.group(1)) if match and int(match.group(1)) < size else 0

    # -- the hub

    @property
    def hub(self):
        return self.server.hub

    @property
    def elsewhere(self):
        return self.server is self.hub.other

    def do_GET(self):
        hub = self.hub
        match = re.fullmatch(rf"/(?:cdn(?:/([^/]+/[^/]+))?|([^/]+/[^/]+)/resolve/{hub.commit})/(.+)", self.path)
        name = match.group(3) if match else None
        self.id = match and (match.group(1) or match.group(2))
        with hub.lock:
            hub.requests.append((self.command, self.path, dict(self.headers.items()),
                                 "other" if self.elsewhere else "hub"))
        if hub.fail and hub.fail(self, name) is not None:
            return
        if name is None:
            match = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/[^/]+", self.path)
            if match and match.group(1) in [hub.id, *hub.models]:
                return self.answer(200, hub.list(match.group(1)), [("Content-Type", "application/json")])
            return self.answer(404, b"{}", [("X-Error-Code", "RepoNotFound")])
        files = hub.models.get(self.id, hub.files)
        if name not in files:
            return self.answer(404, b"Entry not found", [("X-Error-Code", "EntryNotFound")])
        self.give(name, files[name])

    do_HEAD = do_GET

    def give(self, name, data):
        hub = self.hub
        piece = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if piece and not hub.no_ranges:
            first, last = map(int, piece.groups())
            return self.answer(206, data[first:last + 1],
                               [("Content-Range", f"bytes {first}-{last}/{len(data)}")])
        tag = hub.etags.get(name, etag(name, data))
        own = [("X-Repo-Commit", hub.commit)]
        if LARGE.search(name) and not self.elsewhere and hub.elsewhere:
            return self.answer(302, b"", own + [
                ("X-Linked-Etag", f'"{tag}"'), ("X-Linked-Size", str(len(data))),
                ("Location", f"{hub.other_url}/cdn/{self.id}/{name}")])
        first = self.range_of(len(data))
        headers = own + [("ETag", '"of the other server"' if self.elsewhere else f'"{tag}"')]
        if first:
            headers.append(("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}"))
        headers.append(("Content-Length", str(len(data) - first)))
        self.answer(206 if first else 200, data[first:], headers)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a client that went away


class Hub:
    def __init__(self, files):
        self.files = dict(files)
        self.id = ID
        self.models = {}         # others: id: files
        self.etags = {}          # file: what is said in place of its hash
        self.more_names = []     # in the list, and nowhere else
        self.commit = COMMIT
        self.elsewhere = True    # large files are on the other server
        self.no_ranges = False
        self.fail = None
        self.requests = []       # (method, path, headers, "hub" or "other")
        self.sent = 0            # bytes of bodies
        self.lock = threading.Lock()
        self.main = Server(("127.0.0.1", 0), Handler)
        self.other = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.main.server_port}"
        self.other_url = f"http://127.0.0.1:{self.other.server_port}"
        for server in (self.main, self.other):
            server.hub = self
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in (self.main, self.other):
            server.shutdown()
            server.server_close()

    def list(self, model=None):
        return json.dumps({"id": model or self.id, "sha": self.commit, "siblings": [
            {"rfilename": name} for name in [*self.models.get(model, self.files), *self.more_names]]}).encode()

    def forget(self):
        with self.lock:
            self.requests, self.sent = [], 0

    def asked(self, name, method="GET"):
        """Requests for one file, of either server."""
        with self.lock:
            return [r for r in self.requests if r[0] == method and r[1].endswith("/" + name)]

    def bytes_of(self, *names):
        return sum(len(self.files[name]) for name in names or self.files)


def drip(request, data, seconds=30):
    """Bytes so slowly that no one should wait for them."""
    request.send_response(200)
    request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    deadline = time.monotonic() + seconds
    try:
        for at in range(len(data)):
            request.wfile.write(data[at:at + 1])
            time.sleep(0.1)
            if time.monotonic() > deadline:
                break
    except (BrokenPipeError, ConnectionResetError):
        pass
    request.close_connection = True
    return True

"""A fake browser that checks who drives it: it accepts a lease and an epoch only if the pair is not below the highest that it has seen."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Browser(BaseHTTPRequestHandler):
    def do_POST(self):
        fence = (self.headers.get("Mundi-Lease", ""), int(self.headers.get("Mundi-Lease-Epoch", "0")))
        browser = self.server.browsers[self.path.strip("/")]
        with browser["lock"]:
            stale = fence < browser["fence"]
            browser["fence"] = max(fence, browser["fence"])
            browser["log"].append((fence, not stale))
        body = json.dumps({"accepted": not stale}).encode()
        self.send_response(409 if stale else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def start(names):
    """All browsers behind one address; each remembers the highest pair (lease, epoch), compared in that order."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Browser)
    server.browsers = {name: {"fence": ("", 0), "log": [], "lock": threading.Lock()} for name in names}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server

"""Says how long a todo takes: five minutes, whatever it is. The port is 8099, or the argument."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Service(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        todo = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = json.dumps({"minutes": 5, "text": todo["text"]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 8099
ThreadingHTTPServer(("127.0.0.1", PORT), Service).serve_forever()

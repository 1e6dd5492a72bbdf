"""Two vendors' models on this machine: the same number for the same question, and no thought."""

import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Stub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = json.dumps(asked["messages"])
        p = 5 + int(hashlib.sha256(text.encode()).hexdigest(), 16) % 41
        if self.path.endswith("/messages"):  # Anthropic's shape, for Prophet's agent.
            said = json.dumps({"p_yes": p / 100, "rationale": "a stub"})
            body = {"id": "m", "type": "message", "role": "assistant", "model": asked["model"], "content": [{"type": "text", "text": said}], "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
        else:  # OpenAI's.
            said = f"I am a stub. Probability: {p}%"
            body = {"id": "c", "object": "chat.completion", "created": 0, "model": asked["model"], "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}  # fmt: skip
        raw = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Stub).serve_forever()

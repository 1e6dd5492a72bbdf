"""The limits that the tests of the sandbox run under."""

from beforehand.sandbox.policy import CODE_MODULES, Policy

QUICK = Policy(timeout=1, modules=CODE_MODULES)
BOMBED = Policy(timeout=0.6, modules=CODE_MODULES)
ALLOWED_MB = 512 * 1.1
SLACK_S = 1.0
"""What a run may take beyond its limit."""

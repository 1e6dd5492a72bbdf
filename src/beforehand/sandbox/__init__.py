"""Running untrusted Python: one interface, one policy, several engines.

`engines.Sandbox(engine).run(code, input_data, policy, tools) -> Execution`; `policy.Policy` has the
limits. The jail's server imports this package as well, so nothing is loaded here.
"""

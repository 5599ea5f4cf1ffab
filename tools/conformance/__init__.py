"""The conformance suite: PyTorch's own test databases, as its wheel ships them, on device "tpu" beside the CPU.

`run.py` is the program, `harness.py` runs cases in processes that may die, `compare.py` says when two results agree,
`opinfos.py` makes cases of OpInfos. Each file of `sections/` is a section: a module whose `cases()` yields `Case`s, in
an order that does not change from run to run. What is expected of a section, and each difference that is known, stands
in `expected.toml`.
"""

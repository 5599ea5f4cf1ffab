"""Plans: a script, run on a TPU that is not there. See docs/planning.md.

`torch_pjrt plan` says what would be compiled and launched, how much memory it takes and how fast it can be;
`torch_pjrt compile` compiles it, so that the TPU's first step does not. Both run the script in this process on the
planning device (src/pjrt/plan.h), then compile its programs in libtpu's.
"""

"""Python reads this as it starts where its folder is in PYTHONPATH: machine code is made for the processor NATIVE_CPU."""

import os

PROCESSOR = os.environ.get("NATIVE_CPU")
if PROCESSOR:
    import llvmlite.binding

    llvmlite.binding.get_host_cpu_name = lambda: PROCESSOR
    llvmlite.binding.get_host_cpu_features = llvmlite.binding.FeatureMap

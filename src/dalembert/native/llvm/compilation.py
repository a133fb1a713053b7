"""The text of an LLVM module → an object file; run as a program, from standard input to standard output.

It imports llvmlite alone, so that a process of its own, which Ctrl-C can end where LLVM cannot be interrupted, begins soon.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

OPTIMIZATION = 2
APART = 300_000  # characters; LLVM takes about a second for so many, and a process of its own begins in a tenth
LONG = 3_000_000  # characters from which registers are assigned quickly: the rest takes more than linear time
# LLVM then ends a block at every choice between doubles, and moves the rest of it: quadratic. Integers have an instruction.
CHOICE = re.compile(r"(\S+) = select\s+(?:contract )?i1 (\S+), double (\S+), double (\S+)$", re.MULTILINE)
BITS = r"""\1.a = bitcast double \3 to i64
\1.b = bitcast double \4 to i64
\1.c = select i1 \2, i64 \1.a, i64 \1.b
\1 = bitcast i64 \1.c to double"""


def object_file(text: str, plain: bool, triple: str, cpu: str, features: str) -> bytes:
    """Assembly text → an object file for a processor.

    plain: only registers are assigned and blocks joined. So where the text is long and has been simplified as a graph, and
    where its loops are over the few coordinates of a system: LLVM's whole program takes five to ten times as long, gains
    nothing in the one, and makes vectors in the other that are longer than the loops.
    """
    level = code_level(text)
    if len(text) > APART and sys.executable:
        command = [sys.executable, "-P", __file__, str(plain), str(level), triple, cpu, features]
        try:
            ran = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
        except OSError:  # no process can be begun here
            pass
        else:
            if ran.returncode == 0:
                return ran.stdout
    return _object_file(text, plain, level, triple, cpu, features)


def code_level(text: str) -> int:
    """The level at which LLVM chooses instructions and assigns registers."""
    return 0 if len(text) > LONG else OPTIMIZATION


def _object_file(text: str, plain: bool, level: int, triple: str, cpu: str, features: str) -> bytes:
    import llvmlite.binding as llvm

    machine = target(llvm, triple, cpu, features, level)
    module = llvm.parse_assembly(text if level else CHOICE.sub(BITS, text))
    module.triple, module.data_layout = triple, str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=OPTIMIZATION)
    options.loop_vectorization = options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    passes = _short_passes(llvm) if plain else builder.getModulePassManager()
    passes.run(module, builder)
    return machine.emit_object(module)


def target(llvm: Any, triple: str, cpu: str, features: str, optimization: int = OPTIMIZATION) -> Any:
    """The target machine of a processor."""
    found = llvm.Target.from_triple(triple)
    return found.create_target_machine(cpu=cpu, features=features, opt=optimization, reloc="pic", jit=True)


def _short_passes(llvm: Any) -> Any:
    passes = llvm.create_new_module_pass_manager()
    for add in (passes.add_sroa_pass, passes.add_simplify_cfg_pass, passes.add_aggressive_dce_pass):
        add()
    return passes


def main() -> None:
    """Compile standard input for the processor that the arguments name."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    plain, level, *processor = sys.argv[1:]
    sys.stdout.buffer.write(_object_file(sys.stdin.buffer.read().decode(), plain == "True", int(level), *processor))


if __name__ == "__main__":
    main()

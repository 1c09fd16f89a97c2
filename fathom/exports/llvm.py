"""Machine code for processors that XLA does not know, from its kernels as LLVM's text."""

import re

from fathom.errors import FathomError

_MACHINE, _FLAGS = slice(18, 20), slice(48, 52)  # e_machine and e_flags of an ELF header


def compiled(text: str, triple: str, features: str, abi: str) -> bytes:
    """Returns the object file of a module, optimised for a machine.

    Args:
        text: the module, for another machine but without its own instructions.
        triple: of the machine.
        features: the instruction sets that it has, as LLVM names them.
        abi: how it passes arguments, as LLVM names it.

    Raises:
        FathomError: LLVM cannot read the module.
    """
    from llvmlite import binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    general = re.sub(r"^target .*\n", "", text, flags=re.MULTILINE)
    general = re.sub(r'"target-(cpu|features)"="[^"]*"', "", general)
    try:
        machine = llvm.Target.from_triple(triple).create_target_machine(
            features=features, opt=2, reloc="pic", codemodel="default", abiname=abi
        )
        module = llvm.parse_assembly(general)
    except RuntimeError as error:
        problem = " ".join(str(error).split())
        raise FathomError(f"LLVM cannot compile the step for {triple}: {problem}") from error
    module.triple, module.data_layout = triple, str(machine.target_data)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def data_of(target: bytes, source: bytes) -> bytes:
    """Returns an object file of data alone as one of another machine.

    Args:
        target: an object file of that machine, of 64 bits and the same order of bytes.
        source: the object file; nothing in it but the header tells its machine.
    """
    patched = bytearray(source)
    for field in (_MACHINE, _FLAGS):
        patched[field] = target[field]
    return bytes(patched)

"""The rules that a fault may break, each with what it means: for reports, SARIF and ``docs/verify.md``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from channel_tools.verify.findings import Fault


@dataclass(frozen=True)
class Rule:
    """``title`` is a phrase for lists, ``meaning`` says what is wrong and what it leads to."""

    id: str
    title: str
    meaning: str


_RULES: Final = (
    Rule(
        "damage",
        "Damaged or contradictory bytes",
        "The file ends early, a size, offset, count or hash in it contradicts the rest, or it is not what "
        "its name promises. What it holds cannot be told, so a pass would mean nothing.",
    ),
    Rule(
        "unsafe-entry",
        "An archive entry that must not be unpacked",
        "The entry's path is absolute or leaves the archive, or it is neither file, folder nor link.",
    ),
    Rule(
        "surplus-target",
        "Code for a target that is not declared",
        "The file holds GPU code that the package does not declare: it was built for several targets, or "
        "taken from another build.",
    ),
    Rule(
        "target-feature",
        "Code for one xnack or sramecc setting only",
        "The processor is right, but the code loads only on GPUs that are set so. Others fail with "
        "`invalid device function`.",
    ),
    Rule(
        "missing-target",
        "No code for a declared target",
        "The package declares a target and holds no code for it: kernels fail to load on that GPU.",
    ),
    Rule(
        "no-code",
        "No GPU code at all",
        "The package declares targets, and the device compiler did not run or its output was stripped.",
    ),
    Rule(
        "undeclared-target",
        "GPU code without a declaration",
        "The package holds GPU code and says nowhere for which GPU, so no client can choose it rightly.",
    ),
    Rule(
        "other-declaration",
        "Another target declared than wanted",
        "The package was made for another GPU than the caller or the policy wants.",
    ),
    Rule(
        "metadata",
        "Metadata that contradicts itself",
        "Build string, dependencies and extra keys of the package name different targets, or cannot be read.",
    ),
    Rule(
        "named-data",
        "Tuning data named for another target",
        "A Tensile or MIOpen data file carries the name of a GPU that the package is not for. Such files "
        "hold no code that is read here: their name is all there is to go by.",
    ),
    Rule(
        "missing-module",
        "A module of this version is missing",
        "The policy lists the extension modules and libraries of each version, and one is not there: a part "
        "of the build was switched off, or failed without stopping it.",
    ),
    Rule(
        "module-without-code",
        "A module without its GPU code",
        "The policy says that this module holds kernels, and none are in it.",
    ),
    Rule(
        "policy",
        "Not as the policy says",
        "The package breaks, or is not covered by, its policy in another way.",
    ),
    Rule(
        "size",
        "Larger than its budget",
        "The package or a file in it is larger than the policy allows: usually code for more targets, debug "
        "information, or a bundled library.",
    ),
    Rule(
        "forbidden-flag",
        "A forbidden compiler flag",
        "A unit was compiled with a flag that the policy forbids.",
    ),
    Rule(
        "optimisation",
        "A forbidden optimisation level",
        "The last -O of a unit's command, which is the one that counts, is a level that the policy forbids.",
    ),
    Rule(
        "offload-arch",
        "A unit compiled for other targets",
        "The recorded command of a unit names other GPU targets than the package declares.",
    ),
    Rule(
        "evidence",
        "No usable record of the build",
        "Neither the binaries nor the package's build record say how it was compiled, so flags cannot be "
        "judged.",
    ),
    Rule(
        "compiler",
        "Compiled by another compiler than pinned",
        "`.comment` names a compiler that the variant does not pin: a newer GCC gives symbol versions that "
        "the pinned libstdc++ lacks.",
    ),
    Rule(
        "library-missing",
        "A needed library that nothing provides",
        "The loader will not find it: it is neither in the package, nor in its dependencies, ROCm or the "
        "base system.",
    ),
    Rule(
        "library-unknown-origin",
        "A needed library of unknown origin",
        "Nothing that is known provides it. Some of the package's dependencies are not in the list of known "
        "libraries, so one of them may: say so in the policy (`libraries`) once it is known.",
    ),
    Rule(
        "library-undeclared",
        "A needed library whose package is no dependency",
        "It is known which package provides the library, and that package is not among the dependencies: "
        "whether it is there is left to chance.",
    ),
    Rule(
        "library-release",
        "A library of another ROCm release",
        "The number in the library's name is that of another ROCm than the one that the package is for.",
    ),
    Rule(
        "symbol-version",
        "A symbol version that the dependencies do not give",
        "The file needs a newer GLIBC, GLIBCXX or CXXABI than the package's own dependencies promise.",
    ),
    Rule(
        "runpath",
        "A library path that leaves the environment",
        "RPATH or RUNPATH leads outside the prefix or into a folder of the build: another machine's library, "
        "or nobody's, would be loaded.",
    ),
    Rule(
        "text-relocations",
        "Text relocations",
        "Code must be written to when it is loaded. Hardened systems refuse that; pages cannot be shared.",
    ),
    Rule(
        "executable-stack",
        "An executable stack",
        "The file asks for an executable stack, usually by mistake. Newer C libraries refuse to load it.",
    ),
)

CATALOGUE: Final[dict[str, Rule]] = {rule.id: rule for rule in _RULES}


def rule_of(fault: Fault) -> Rule:
    """The rule that a fault breaks."""
    return CATALOGUE.get(fault.rule) or CATALOGUE["damage" if fault.damage else "policy"]

"""What the files of one package are measured against when their linkage is judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from channel_tools.verify.linkage import Linkage


@dataclass(frozen=True)
class LinkageContext:
    """Pins, dependencies and exemptions of one package.

    ``gcc_major``: no GCC newer than this (None: any). ``allowed_compilers``: regular expressions; an entry of
    ``.comment`` that one of them matches as a whole may be of any GCC, as start files of a C library are that
    the distribution compiled with its own. ``depends``: match specs of the package; None where they are not
    known, and then neither libraries nor versions are judged. ``package_libraries``: from
    :func:`package_libraries`. ``allowed_libraries`` and ``allowed_run_paths``: shell patterns.
    ``hip_version``: of the HIP or ROCm that it was built against, ``7.2``. ``root``: folder of the prefix in
    which the package's paths begin, such as ``lib/python3/site-packages`` for a wheel.
    """

    gcc_major: int | None = None
    allowed_compilers: tuple[str, ...] = ()
    depends: tuple[str, ...] | None = None
    package_libraries: Mapping[str, frozenset[str]] = field(default_factory=dict)
    allowed_libraries: tuple[str, ...] = ()
    allowed_run_paths: tuple[str, ...] = ()
    hip_version: str | None = None
    root: str = ""


def package_libraries(
    linkages: Mapping[str, Linkage | None], links: Iterable[str] = ()
) -> dict[str, frozenset[str]]:
    """The names under which a package has libraries, and the folders of each (as its paths spell them).

    The loader finds a library by its file name, or by the name of a link to it; a SONAME counts as such a
    name, since archives are read without following their links.

    :param linkages: the ELF files by path, None where the linkage is not known
    :param links: paths of symbolic links
    """
    found: dict[str, set[str]] = {}
    for path in [*linkages, *links]:
        folder, _, name = path.rpartition("/")
        linkage = linkages.get(path)
        for one in {name, linkage.soname or name if linkage else name}:
            found.setdefault(one, set()).add(folder)
    return {name: frozenset(folders) for name, folders in found.items()}

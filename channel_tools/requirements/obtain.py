"""Source distributions by name, from the store of sources; fetched as ``rocm-channel sources fetch`` does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from channel_tools.model.errors import RequirementsError
from channel_tools.model.project import Project
from channel_tools.sources.fetch import Fetcher
from channel_tools.sources.needed import Source
from channel_tools.sources.python_index import PythonIndex, project_of
from channel_tools.sources.store import Store

Listener = Callable[[str, int, int | None], None]


def obtain(
    project: Project,
    name: str,
    sha256: str,
    urls: tuple[str, ...] = (),
    listen: Listener = lambda name, there, size: None,
) -> Path:
    """Where the archive of that name and sha256 lies, after a fetch if need be.

    :param listen: called with the file's name, the bytes that are there, and its size if known
    :raises SourceError: no place gives it
    """
    store = Store.of(project)
    (fetched,) = Fetcher(store, listen=listen).run([Source(name, sha256, urls)])
    if fetched.error:
        raise fetched.error
    return store.path(sha256)


class _Listing(PythonIndex):
    """What the index says of its files, without fetching one."""

    def sha256(self, name: str) -> str:
        """The listed sha256 of a file, in hex; empty where there is no such file or none is listed."""
        project = project_of(name)
        link = self._ask(project).get(name) if project else None
        return str(link.hash) if link is not None and link.hash_name == "sha256" else ""


def listed_sha256(name: str) -> str:
    """The sha256 that the Python index lists for a source distribution, in hex.

    :raises RequirementsError: the index cannot be asked, or does not say
    """
    index = _Listing()
    try:
        listed, why = index.sha256(name), "no such file, or none with a sha256"
    except Exception as error:  # whatever pip's internals raise
        listed, why = "", f"pip could not ask it: {' '.join(str(error).split())[:200]}"
    finally:
        index.close()
    if not listed:
        raise RequirementsError(
            "the Python index does not give the sha256 of this release",
            where=name,
            found=why,
            fix="correct the version, or give the archive with --source",
        )
    return listed

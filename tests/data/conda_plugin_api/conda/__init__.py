"""A stand-in for the parts of conda that a plugin for virtual packages meets, of one release.

Which release: ``STAND_IN_CONDA``, the ``since`` of one in ``releases.toml`` beside this folder.
"""

import os
import tomllib
from pathlib import Path

FACTS = tomllib.loads((Path(__file__).parents[1] / "releases.toml").read_text())
RELEASE = next(each for each in FACTS["release"] if each["since"] == os.environ["STAND_IN_CONDA"])
__version__ = RELEASE["since"]

"""``recipe.yaml`` (v1) to ``meta.yaml`` (v0), for conda-build and ``conda mambabuild``.

The subset that real recipes need is translated; anything else stops with file, line and dotted key, so
that the two engines never read a recipe differently.

What is translated: context; package; source (url, path, patches); build (number, string, skip, noarch,
script with env, python entry points, dynamic linking, prefix detection); requirements with run exports;
script, python and package_contents tests; about; extra; ``if``/``then``/``else`` in any list; expressions
of names, text, ``replace``, ``lower``, ``upper``, ``int``, slices, comparisons, ``env.get`` and, in
requirements, ``compiler``, ``stdlib`` and the pins.

What is decided here:

- A variant key ``x`` is used as ``v_x``, set at the top of the file, since conda-build first reads a recipe
  with no variant key defined (:mod:`channel_tools.recipe_v0.expressions`).
- ``skip`` becomes ``skip: true`` between ``{% if %}`` and ``{% endif %}``, not a selector: selectors turn
  the variant value "11" into a number, and do not know ``v_x``.
- A key that conda-build would take for used though it is not (by a part of a word, or by a test requirement
  of that name) is listed in ``force_ignore_keys``.
- ``numpy`` alone in host, without such a key in the matrix, becomes ``numpy *``: conda-build would put its
  own default release there.
"""

from channel_tools.recipe_v0.generate import generate
from channel_tools.recipe_v0.sync import check, sync

__all__ = ["check", "generate", "sync"]

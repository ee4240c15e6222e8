"""``python -m channel_tools``: the same as ``rocm-channel``."""

from channel_tools.cli.main import main

main()

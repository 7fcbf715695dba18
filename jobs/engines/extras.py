"""How to install an extra of this package, which is in no index."""

from typing import Literal


def how_to_install(extra: Literal["connect", "embedded"]) -> str:
    """Returns the next step where an extra is missing, for who has installed a wheel or a checkout."""
    return f"pip install 'WHEEL[{extra}]' with the file that was installed, or '.[{extra}]' in a checkout"

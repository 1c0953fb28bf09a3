"""TL1 and TL2 of FSTL as controllers in Python."""

from .tl1 import tl1
from .tl2 import tl2

__all__ = ["tl1", "tl2"]

"""Volumes on zoned drives, and translation layers written in Python.

A layer is a function that returns a generator. It yields commands of :mod:`shingle.control` and gets their answers. The same layer runs in virtual time
(:func:`simulate`) and under a real file system (:class:`Export`).
"""

from . import control, layers, traces
from ._native import Export, create_drive, create_volume, simulate

__all__ = ["Export", "control", "create_drive", "create_volume", "layers", "simulate", "traces"]

"""What the bundled workloads say of themselves. Their tasks, and torch, are not imported."""

import importlib
import pkgutil

import hasten.gallery
from hasten.records.gallery import Gallery


def read_catalogue() -> Gallery:
    """Each package in here has its ``about.py``."""
    found = pkgutil.iter_modules(hasten.gallery.__path__)
    names = sorted(each.name for each in found if each.ispkg)
    abouts = [importlib.import_module(f"hasten.gallery.{name}.about") for name in names]
    return Gallery(workloads=tuple(about.WORKLOAD for about in abouts))

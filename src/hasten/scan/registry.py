"""All rules, in the order of their codes."""

import inspect
import pkgutil
from functools import cache
from importlib import import_module

from hasten.scan import rules
from hasten.scan.rule import Rule


@cache
def all_rules() -> tuple[Rule, ...]:
    found = []
    for module in pkgutil.iter_modules(rules.__path__):
        loaded = import_module(f"{rules.__name__}.{module.name}")
        found += [
            each()
            for each in vars(loaded).values()
            if isinstance(each, type)
            and issubclass(each, Rule)
            and not inspect.isabstract(each)
            and each.__module__ == loaded.__name__
        ]
    return tuple(sorted(found, key=lambda rule: rule.code))

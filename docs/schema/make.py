"""Writes the JSON Schemas of what the commands print; `make schemas` runs it."""

import json
from pathlib import Path
from typing import Any

import msgspec

from hasten.records.cache import CacheListing, CacheRemoval, CacheVerification
from hasten.records.explanation import Explanations
from hasten.records.gallery import Gallery
from hasten.records.inference import InferenceReport
from hasten.records.loading import DataReport
from hasten.records.profile import ProfileReport
from hasten.records.recipe import Evidence
from hasten.records.report import BenchReport, ProofReport
from hasten.records.saved_bench import GateReport, SavedBench
from hasten.records.scan import FixReport, ScanReport
from hasten.records.training import TrainingSummary
from hasten.report.environment import EnvironmentReport
from hasten.techniques.registry import recipe_schema

DOCUMENTS = {
    "tune": Evidence,
    "profile": ProfileReport,
    "profile-data": DataReport,
    "bench": BenchReport,
    "bench-saved": SavedBench,
    "bench-against": GateReport,
    "bench-inference": InferenceReport,
    "prove": ProofReport,
    "train": TrainingSummary,
    "explain": Explanations,
    "gallery": Gallery,
    "scan": ScanReport,
    "scan-fix": FixReport,
    "cache-ls": CacheListing,
    "cache-verify": CacheVerification,
    "cache-removal": CacheRemoval,
    "env": EnvironmentReport,
}


def schemas() -> dict[str, dict[str, Any]]:
    made = {name: msgspec.json.schema(kind) for name, kind in DOCUMENTS.items()}
    return {**made, "recipe": recipe_schema()}


if __name__ == "__main__":
    for name, schema in schemas().items():
        text = json.dumps(schema, indent=1) + "\n"
        Path(__file__).with_name(f"{name}.json").write_text(text)

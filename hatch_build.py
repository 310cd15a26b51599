"""Refuses to build a wheel without the pages, since nobody could then answer in a browser."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGES = {
    "src/headcount/collect/pages/respond.html": "make browser",
    "src/headcount/guide/pages/index.html": "make guide",
}


class PagesHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # the pages can be built later
            return
        for path, command in PAGES.items():
            if not (Path(self.root) / path).is_file():
                raise FileNotFoundError(f"{path} must be built first: run {command}")

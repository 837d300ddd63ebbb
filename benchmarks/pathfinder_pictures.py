"""A contact sheet of Pathfinder: eight images of each size, with their labels. Nothing is measured.

Run: python benchmarks/pathfinder_pictures.py docs/pathfinder.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from headstart.tasks.pathfinder import CONTOUR_LABELS
from headstart.tasks.pathfinder.generate import images
from headstart.tasks.pathfinder.geometry import recipe, tables

SIDE, GAP, TEXT = 256, 8, 18
SIZES = (32, 64, 128, 256)
"""Sizes of the papers."""


def sheet(columns: int = 4) -> Image.Image:
    """One row of images per size and label, each enlarged to 256 pixels without smoothing."""
    rows = 2 * len(SIZES)
    out = Image.new("L", (columns * (SIDE + GAP) + GAP, rows * (SIDE + TEXT + GAP) + GAP), 255)
    write = ImageDraw.Draw(out)
    for i, size in enumerate(SIZES):
        pictures, label, _ = images(tables(recipe(size, 14)), 0, f"pathfinder/{size}/14/train", 0, 32)
        for kind in (1, 0):
            top = (2 * i + 1 - kind) * (SIDE + TEXT + GAP) + GAP
            for column, which in enumerate(np.flatnonzero(label == kind)[:columns]):
                left = column * (SIDE + GAP) + GAP
                write.text((left, top), f"{size} x {size}, image {which}: {CONTOUR_LABELS[kind]}", fill=0)
                grown = Image.fromarray(pictures[which]).resize((SIDE, SIDE), Image.Resampling.NEAREST)
                out.paste(grown, (left, top + TEXT))
    return out


if __name__ == "__main__":
    sheet().quantize(16).save(Path(sys.argv[1]), optimize=True)

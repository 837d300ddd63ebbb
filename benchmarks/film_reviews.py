"""Write the film reviews that the study `film-reviews` reads, out of IMDb's files.

    python benchmarks/film_reviews.py DIR [OUT]

DIR holds `imdb/imdb_train.jsonl.xz` and `imdb_test.jsonl.xz`; OUT (default: DIR/film-reviews) gets `train.jsonl` with 1,000 reviews,
both classes in turn, and `test.jsonl` with every twelfth review of test.
"""

import sys
from pathlib import Path

from harness import imdb_reviews

if __name__ == "__main__":
    data = Path(sys.argv[1])
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else data / "film-reviews"
    imdb_reviews(data, 1_000, out)

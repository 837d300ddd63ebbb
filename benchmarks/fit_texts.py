"""What frozen features of an encoder of texts are worth beside n-grams, by the number of labels.

    python benchmarks/fit_texts.py WEIGHTS/minilm-l6 --data DATA

On film reviews (`imdb_*.jsonl.xz`): so many labels, a fifth of which chooses the penalty, three draws that share no
review; accuracy and log-loss on the same 1,000 reviews of test. Writes docs/benchmarks/fit-texts.json.
"""

from __future__ import annotations

import argparse
import json
import lzma
import time
from pathlib import Path

import numpy as np

from headstart.baselines.embedding import EmbeddingSpec
from headstart.baselines.ngrams import NgramsSpec
from headstart.sequence import Examples, Signature

LABELS, DRAWS, SCORED = (50, 200, 1_000), 3, 1_000
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "fit-texts.json"


def reviews(data: Path, split: str, count: int, order: np.random.Generator) -> Examples:
    """So many reviews, drawn in this order."""
    with lzma.open(data / "imdb" / f"imdb_{split}.jsonl.xz") as file:
        rows = [json.loads(line) for line in file]
    some = [rows[i] for i in order.permutation(len(rows))[:count]]
    texts = [np.frombuffer(row["text"].encode(), np.uint8) for row in some]
    return Examples.from_arrays(texts, np.array([row["label"] for row in some]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights")
    parser.add_argument("--data", type=Path, default=Path("data"))
    options = parser.parse_args()
    order = np.random.default_rng(0)
    train = reviews(options.data, "train", DRAWS * max(LABELS), order)
    test = reviews(options.data, "test", SCORED, order)
    signature = Signature("tokens", 256, int(train.lengths.max()), int(train.lengths.min()), "class", classes=2)
    models = {
        "n-grams": NgramsSpec(),
        "frozen features": EmbeddingSpec(source=options.weights),
        "joined": EmbeddingSpec(source=options.weights, ngrams=True),
    }
    begun, out = time.process_time(), []
    for labels in LABELS:
        for draw in range(DRAWS):
            rows = np.arange(draw * max(LABELS), draw * max(LABELS) + labels)
            for name, spec in models.items():
                model = spec.fit(train.take(rows[labels // 5 :]), train.take(rows[: labels // 5]), signature, 0)
                answers = model.predict(test)
                accuracy = float((answers.argmax(1) == test.target).mean())
                loss = float(-np.log(np.maximum(answers[np.arange(len(test)), test.target], 1e-12)).mean())
                out.append({"labels": labels, "draw": draw, "model": name, "accuracy": accuracy, "log_loss": loss})
                print(out[-1], flush=True)
    seconds = time.process_time() - begun
    PAGE.write_text(
        json.dumps({"weights": Path(options.weights).name, "seconds": seconds, "rows": out}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()

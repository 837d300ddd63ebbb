"""Kinds of models: one file and one line each.

A stage's `model` is a spec of this table; a table without a `kind` is a `sequence`. Those of `headstart.baselines` are
fitted without gradients.
"""

from __future__ import annotations

from headstart.spec import Entry

LIKE = Entry("headstart.checkpoints.like:with_like", "fills in what a model is `like`: the fields of a checkpoint's")
"""What reads `model.like`; checkpoints stand on models, never the other way round."""

MODELS: dict[str, Entry] = {
    "sequence": Entry("headstart.models.model:ModelSpec", "encoder, positions, blocks of mixers and head; trained"),
    "majority": Entry("headstart.baselines.trivial:MajoritySpec", "class shares, or the mean, of the train examples"),
    "nearest": Entry("headstart.baselines.trivial:NearestSpec", "target of the nearest train example"),
    "linear": Entry("headstart.baselines.linear:LinearSpec", "logistic or ridge regression on the inputs themselves"),
    "summary": Entry("headstart.baselines.summary:SummarySpec", "logistic or ridge regression on statistics"),
    "kernels": Entry(
        "headstart.baselines.kernels:KernelsSpec",
        "ridge on random convolution kernels; tokens: n-grams",
        "Dempster et al. 2021",
    ),
    "ngrams": Entry("headstart.baselines.ngrams:NgramsSpec", "logistic or ridge regression on short runs of tokens"),
    "unigram": Entry("headstart.baselines.tokens:UnigramSpec", "how often each token is; predicts tokens"),
    "bigram": Entry("headstart.baselines.tokens:BigramSpec", "what follows each token; predicts tokens"),
    "copy": Entry("headstart.baselines.tokens:CopySpec", "the token before once more; predicts tokens"),
    "embedding": Entry(
        "headstart.baselines.embedding:EmbeddingSpec",
        "logistic or ridge regression on frozen features of a pretrained model of series, texts or proteins",
        "Feofanov et al. 2025",
    ),
    "task": Entry("headstart.baselines.trivial:TaskRuleSpec", "a trivial rule that the task knows of itself"),
}

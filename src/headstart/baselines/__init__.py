"""Models without gradients that a sequence model has to beat, fitted in one go: lines of the table `models.MODELS`.

fitted = KernelsSpec().fit(train, val, signature, seed=0)
fitted.predict(test)                              # probabilities (n, K), or numbers (n,)
again = from_arrays(fitted.facts.model_dump(mode="json"), fitted.arrays())
"""

from headstart.baselines.fitting import Fitted, FittedFacts, FittedSpec, from_arrays, shapes

__all__ = ["Fitted", "FittedFacts", "FittedSpec", "from_arrays", "shapes"]

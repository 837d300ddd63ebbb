"""Whether a whole model of a person's own can be served."""

from headstart.training.answers import check_servable as check_servable

"""From a person's own sequences to a model that is served: plan by time, train, compare, choose, save."""

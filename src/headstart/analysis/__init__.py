"""What trained models have become: kernels, attention, distances from their start; each beside the model untrained.

    from headstart.analysis.stages import opened
    from headstart.analysis.weights import kernels

    stage = opened("3f2a9c", store="runs", data="data")     # a finished stage, by the start of its id
    kernels(stage.model, 1024), kernels(stage.start, 1024)  # learnt, and as it started

Functions take models and batches, and give plain values (numpy arrays); `report` draws them. Nothing is imported
before it is asked for.
"""

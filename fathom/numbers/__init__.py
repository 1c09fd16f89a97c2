"""Number formats: fixed point simulated in float32, int8 inference, sparsity."""

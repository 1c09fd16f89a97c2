"""What networks and their training are made of: layers, data sets, the training loop."""

"""The machine under a run: devices, memory, processes, files, and what a result says of them."""

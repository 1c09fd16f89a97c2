"""Models of machines: the roofline, tilings of accelerators, scaling over nodes."""

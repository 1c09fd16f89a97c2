"""The atlas: bundles of machines, and a site that shows them side by side."""

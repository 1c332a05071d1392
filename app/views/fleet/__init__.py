"""The parts of the page Replicas."""

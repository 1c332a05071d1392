"""The parts of the page Replica, one question a file."""

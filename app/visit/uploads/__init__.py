"""What visitors send: saved within limits, read in a process of its own, kept under a lease with an unguessable id."""

"""What a person touches: browser pages and command line."""

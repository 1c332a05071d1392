"""The link of the app: every setting of every page, declared once, written to the address as a value and read back."""

"""The questions in SQL, one file each."""

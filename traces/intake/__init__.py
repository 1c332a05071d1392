"""Files to a dataset: formats are detected, inputs read one after the other, and every file and record is counted.

In: paths, folders, zips and standard input. Out: a generation of the dataset and a receipt. Reading the same content
again, under any name, in any container and in any order, changes nothing (`known_files`).
"""

"""The pages: a file each, or a folder where a page has parts; the file with the page's name is what Streamlit runs.

In: the question of the visit. Out: figures on the page, each with its definition and its command line.
"""

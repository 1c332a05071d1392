"""What is drawn and written: charts, tables, figures with their downloads, numbers, labels, flags, harmless text.

In: frames and numbers. Out: Altair charts, Streamlit elements, strings. Nothing here knows what is open or asked.
"""

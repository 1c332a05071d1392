"""One format a file: `NAME`, `sniff(head)`, `read(source, context)`."""

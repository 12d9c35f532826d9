"""The figures and tables of the paper, one file each: what is measured, how it is judged, how it is drawn."""

"""Publication figures, one module each; every figure is saved as PDF, SVG and the CSV of its data."""

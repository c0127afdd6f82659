"""The style sheet of the report, shipped as it is written."""

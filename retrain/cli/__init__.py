"""The command line: one file per command. Importing it loads nothing heavy."""

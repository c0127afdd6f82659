"""`python -m retrain`: the command line."""

from retrain.cli.main import main

main()

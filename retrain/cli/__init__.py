"""retrain.cli"""

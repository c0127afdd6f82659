"""retrain.config"""

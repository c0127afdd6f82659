"""retrain.testing"""

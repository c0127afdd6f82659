"""retrain.reward"""

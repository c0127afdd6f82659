"""retrain.environment"""

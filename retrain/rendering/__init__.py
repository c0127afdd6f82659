"""retrain.rendering"""

"""retrain.engine"""

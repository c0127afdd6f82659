"""retrain.report"""

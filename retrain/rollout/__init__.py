"""retrain.rollout"""
